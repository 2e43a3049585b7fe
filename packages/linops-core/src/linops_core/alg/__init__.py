"""Solvers that need nothing of an operator but to apply it, and maybe its adjoint."""

from ._admm import admm as admm
from ._conjugate_gradients import conjugate_gradients as conjugate_gradients
from ._estimators import Estimate as Estimate
from ._estimators import estimate_diagonal as estimate_diagonal
from ._estimators import estimate_trace as estimate_trace
from ._fista import fista as fista
from ._lsmr import lsmr as lsmr
from ._lsqr import lsqr as lsqr
from ._pdhg import pdhg as pdhg
from ._polynomial import polynomial_preconditioner as polynomial_preconditioner
from ._power_method import operator_norm as operator_norm
from ._power_method import power_method as power_method
from ._proximal import Proximal as Proximal
from ._proximal import box as box
from ._proximal import conjugate as conjugate
from ._proximal import l2_ball as l2_ball
from ._proximal import l2_squared as l2_squared
from ._proximal import no_penalty as no_penalty
from ._proximal import soft_threshold as soft_threshold
from ._step import ConvergenceWarning as ConvergenceWarning
from ._step import Record as Record
from ._step import Step as Step
from ._step import StopReason as StopReason
from ._svd import SVD as SVD
from ._svd import svd as svd

__all__ = [
    "SVD",
    "ConvergenceWarning",
    "Estimate",
    "Proximal",
    "Record",
    "Step",
    "StopReason",
    "admm",
    "box",
    "conjugate",
    "conjugate_gradients",
    "estimate_diagonal",
    "estimate_trace",
    "fista",
    "l2_ball",
    "l2_squared",
    "lsmr",
    "lsqr",
    "no_penalty",
    "operator_norm",
    "pdhg",
    "polynomial_preconditioner",
    "power_method",
    "soft_threshold",
    "svd",
]

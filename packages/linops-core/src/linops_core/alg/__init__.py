"""Solvers that only apply an operator, and maybe its adjoint.

What holds for all of them:

- A is a NamedLinop, or a function. A function comes with ``adjoint=`` where its adjoint is needed,
  and with a vector (``like``, ``v_init``) where the space of its input has to be known: any tensor
  of its shape, dtype and device. Otherwise ``sizes`` gives the sizes of those dimensions of the
  input that the operator does not know, and vectors are random, from ``seed``.
- y is one vector, real or complex, of the shape of the output of A.
- Steps begin at ``x0``, zero by default, and end after ``max_num_iters`` of them in any case. x is
  a new tensor of the shape of the input; nothing that is given is written to.
- ``CONVERGED`` allows for rounding; where that alone is more than the tolerance, the steps end with
  ``ROUNDING`` at the precision.
- Vectors in half precision are kept in single precision, and what is given is applied in half.
- ``tqdm_kwargs``, a mapping, shows a progress bar. ``callback`` is called with a :class:`Step`
  after every step; each solver says what the ``values`` of its steps are.
- TypeError is raised if a vector is neither floating nor complex, an argument is of a wrong type
  or a function comes without its adjoint; ValueError if shapes, dtypes or sizes do not fit, or a
  number is out of its range; ArithmeticError if the iteration meets NaN or infinity, or the scale
  of A or of the solution leaves the range of the dtype.
"""

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
from ._progress import ConvergenceWarning as ConvergenceWarning
from ._progress import Record as Record
from ._progress import Step as Step
from ._progress import StopReason as StopReason
from ._proximal import Proximal as Proximal
from ._proximal import box as box
from ._proximal import conjugate as conjugate
from ._proximal import group_soft_threshold as group_soft_threshold
from ._proximal import in_basis as in_basis
from ._proximal import l2_ball as l2_ball
from ._proximal import l2_squared as l2_squared
from ._proximal import no_penalty as no_penalty
from ._proximal import soft_threshold as soft_threshold
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
    "group_soft_threshold",
    "in_basis",
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

"""Solvers that only apply an operator, and maybe its adjoint.

What holds for all of them:

- A is a NamedLinop, or a function. A function comes with ``adjoint=`` where its adjoint is needed,
  and with a vector (``like``, ``v_init``) where the space of its input has to be known: any tensor
  of its shape, dtype and device. Otherwise ``sizes`` gives the sizes of those dimensions of the
  input that the operator does not know (a ``...`` that is not given stands for none), and vectors
  are random, from ``seed``.
- Where ``A.is_complex_linear`` is False, products are Re<x, y>, and A is an operator between real
  spaces of twice the dimension. A function is taken to be linear over complex numbers; wrap one
  that is not in a ``SimpleLinop(..., is_complex_linear=False)``.
- y is one vector, real or complex, of the shape of the output of A.
- ``lsqr``, ``lsmr``, ``fista``, ``admm`` and ``pdhg`` take a list or tuple of operators of one
  input, then with lists of vectors y, of proximal maps and of adjoints, one for each.
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

from ._krylov._conjugate_gradients import conjugate_gradients as conjugate_gradients
from ._krylov._gmres import gmres as gmres
from ._krylov._lsmr import lsmr as lsmr
from ._krylov._lsqr import lsqr as lsqr
from ._krylov._minres import minres as minres
from ._proximals._composed import conjugate as conjugate
from ._proximals._composed import in_basis as in_basis
from ._proximals._projections import box as box
from ._proximals._projections import l1_ball as l1_ball
from ._proximals._projections import l2_ball as l2_ball
from ._proximals._projections import simplex as simplex
from ._proximals._proximal import Proximal as Proximal
from ._proximals._proximal import separable as separable
from ._proximals._quadratics import l2_squared as l2_squared
from ._proximals._quadratics import no_penalty as no_penalty
from ._proximals._shrinkage import group_soft_threshold as group_soft_threshold
from ._proximals._shrinkage import huber as huber
from ._proximals._shrinkage import l0 as l0
from ._proximals._shrinkage import nuclear_norm as nuclear_norm
from ._proximals._shrinkage import soft_threshold as soft_threshold
from ._regression._irls import irls as irls
from ._regression._lbfgs import lbfgs as lbfgs
from ._regression._omp import omp as omp
from ._shared._progress import ConvergenceWarning as ConvergenceWarning
from ._shared._progress import Record as Record
from ._shared._progress import Step as Step
from ._shared._progress import StopReason as StopReason
from ._spectral._estimators import Estimate as Estimate
from ._spectral._estimators import estimate_diagonal as estimate_diagonal
from ._spectral._estimators import estimate_trace as estimate_trace
from ._spectral._polynomial import polynomial_preconditioner as polynomial_preconditioner
from ._spectral._power_method import operator_norm as operator_norm
from ._spectral._power_method import power_method as power_method
from ._spectral._svd import SVD as SVD
from ._spectral._svd import svd as svd
from ._splitting._admm import admm as admm
from ._splitting._douglas_rachford import douglas_rachford as douglas_rachford
from ._splitting._fista import fista as fista
from ._splitting._pdhg import pdhg as pdhg
from ._splitting._proximal_gradient import proximal_gradient as proximal_gradient
from ._splitting._split_bregman import split_bregman as split_bregman

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
    "douglas_rachford",
    "estimate_diagonal",
    "estimate_trace",
    "fista",
    "gmres",
    "group_soft_threshold",
    "huber",
    "in_basis",
    "irls",
    "l0",
    "l1_ball",
    "l2_ball",
    "l2_squared",
    "lbfgs",
    "lsmr",
    "lsqr",
    "minres",
    "no_penalty",
    "nuclear_norm",
    "omp",
    "operator_norm",
    "pdhg",
    "polynomial_preconditioner",
    "power_method",
    "proximal_gradient",
    "separable",
    "simplex",
    "soft_threshold",
    "split_bregman",
    "svd",
]

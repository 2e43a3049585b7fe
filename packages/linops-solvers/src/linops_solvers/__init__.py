"""Solvers that only apply an operator, and perhaps its adjoint.

These rules hold for all of them:

- A is a NamedLinop or a function. For a function, give ``adjoint=`` if the solver needs the
  adjoint. Give ``like`` or ``v_init`` if the solver needs to know the input: any tensor of its
  shape, dtype and device.
- Random vectors are drawn from ``seed``. For an operator, ``sizes`` gives the sizes of those
  dimensions of the input that it does not know. A ``...`` that is not given stands for no
  dimensions.
- If ``A.is_complex_linear`` is False, inner products are Re<x, y>, and A is an operator between
  real spaces of twice the dimension. Functions count as linear over the complex numbers. If a
  function is linear over the reals only, pass ``SimpleLinop(function, ...,
  is_complex_linear=False)``.
- A solver writes into the vectors that it passes to A. A function that keeps its input must keep
  a copy, ``x.clone()``.
- y is one vector, real or complex, of the shape of the output of A.
- ``lsqr``, ``lsmr``, ``fista``, ``admm``, ``pdhg`` and ``mlem`` also take a list or tuple of
  operators with the same input. Then y, the proximal maps and the adjoints are lists with one entry
  for each operator.
- A solver starts at ``x0``, zero by default (for counts a positive constant), and ends after
  ``max_num_iters`` steps at the latest. If a measured value is then more than 100 times its
  tolerance, the solver gives a :class:`ConvergenceWarning`, unless the tolerance is 0. x is a new
  tensor of the shape of the input. No argument is written to.
- ``CONVERGED`` means that the tolerance is met within rounding. If rounding alone exceeds the
  tolerance, the solver ends with ``ROUNDING`` at the precision of the dtype.
- For half precision, vectors are kept in single precision, and operators are applied in half
  precision.
- ``progress=True`` shows a progress bar, and ``tqdm_kwargs``, a mapping, one with options of tqdm.
  ``callback`` gets a :class:`Step` after every step. Each solver documents the ``values`` of its
  steps. Solvers that minimise a function report it as "objective", where the function is known:
  that of linear systems by ``gmres`` and ``minres``, and of ``omp``, is the "residual".
- If the process ends, a call with ``checkpoint``, the path of a file, continues from the file and
  returns the same bits. The file has what a step needs from the step before. It is written after
  every ``checkpoint_every`` steps and after the last one. :func:`conjugate_gradients` says how
  several processes write, and what is compared. Proximal maps are compared too.
- TypeError: a vector is neither floating nor complex, an argument has a wrong type, or a function
  comes without its adjoint. ValueError: shapes, dtypes or sizes do not fit, or a number is out of
  range. ArithmeticError: an iteration meets NaN or infinity, or the scale of A or of the solution
  exceeds the range of the dtype.
"""

from typing import TYPE_CHECKING

from linops_core.siblings import loaded_when_used

if TYPE_CHECKING:
    from ._emission._mlem import mlem as mlem
    from ._emission._osem import osem as osem
    from ._emission._richardson_lucy import richardson_lucy as richardson_lucy
    from ._krylov._conjugate_gradients import conjugate_gradients as conjugate_gradients
    from ._krylov._gmres import gmres as gmres
    from ._krylov._lsmr import lsmr as lsmr
    from ._krylov._lsqr import lsqr as lsqr
    from ._krylov._minres import minres as minres
    from ._proximals._composed import conjugate as conjugate
    from ._proximals._composed import in_basis as in_basis
    from ._proximals._from_values import from_proximal as from_proximal
    from ._proximals._poisson import poisson_likelihood as poisson_likelihood
    from ._proximals._projections import box as box
    from ._proximals._projections import l1_ball as l1_ball
    from ._proximals._projections import l2_ball as l2_ball
    from ._proximals._projections import simplex as simplex
    from ._proximals._proximal import Proximal as Proximal
    from ._proximals._proximal import ProximalMap as ProximalMap
    from ._proximals._proximal import separable as separable
    from ._proximals._pyproximal import from_pyproximal as from_pyproximal
    from ._proximals._pyproximal import to_pyproximal as to_pyproximal
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
    from ._shared._precision import OperatorPair as OperatorPair
    from ._shared._progress import Progress as Progress
    from ._shared._progress import SolverSteps as SolverSteps
    from ._shared._reports import ConvergenceWarning as ConvergenceWarning
    from ._shared._reports import Record as Record
    from ._shared._reports import Step as Step
    from ._shared._reports import StopReason as StopReason
    from ._shared._space import Space as Space
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
else:
    _HOMES = {
        "._emission._mlem": "mlem",
        "._emission._osem": "osem",
        "._emission._richardson_lucy": "richardson_lucy",
        "._krylov._conjugate_gradients": "conjugate_gradients",
        "._krylov._gmres": "gmres",
        "._krylov._lsmr": "lsmr",
        "._krylov._lsqr": "lsqr",
        "._krylov._minres": "minres",
        "._proximals._composed": "conjugate in_basis",
        "._proximals._poisson": "poisson_likelihood",
        "._proximals._projections": "box l1_ball l2_ball simplex",
        "._proximals._proximal": "Proximal ProximalMap separable",
        "._proximals._from_values": "from_proximal",
        "._proximals._pyproximal": "from_pyproximal to_pyproximal",
        "._proximals._quadratics": "l2_squared no_penalty",
        "._proximals._shrinkage": "group_soft_threshold huber l0 nuclear_norm soft_threshold",
        "._regression._irls": "irls",
        "._regression._lbfgs": "lbfgs",
        "._regression._omp": "omp",
        "._shared._precision": "OperatorPair",
        "._shared._progress": "Progress SolverSteps",
        "._shared._reports": "ConvergenceWarning Record Step StopReason",
        "._shared._space": "Space",
        "._spectral._estimators": "Estimate estimate_diagonal estimate_trace",
        "._spectral._polynomial": "polynomial_preconditioner",
        "._spectral._power_method": "operator_norm power_method",
        "._spectral._svd": "SVD svd",
        "._splitting._admm": "admm",
        "._splitting._douglas_rachford": "douglas_rachford",
        "._splitting._fista": "fista",
        "._splitting._pdhg": "pdhg",
        "._splitting._proximal_gradient": "proximal_gradient",
        "._splitting._split_bregman": "split_bregman",
    }

    # Few programs need all modules, so each name is imported when it is used.
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
    __all__ = sorted(" ".join(_HOMES.values()).split())

__version__ = "0.1.0"

"""The alternating direction method of multipliers, for regularised least squares."""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack, cast

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import check_flags, check_integer, check_real

from .._krylov._conjugate_steps import ConjugateSteps
from .._proximals._separable import Proximals
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import Operator, check_like
from .._shared._options import Checkpointed, with_options
from .._shared._precision import rounding_of
from .._shared._progress import MovingSteps, Progress
from .._shared._reports import Measured, reason_of_both
from .._shared._space import Space, norms_of
from .._shared._stacked import Operators, Vectors
from .._shared._vectors import BatchDims, check_batch_axes, space_of_systems
from ._problem import PenalizedProblem, floors_of

_NAME = "admm"
_MOST = 2.0**60  # largest factor by which rho may change


@with_options(Checkpointed)
def admm(
    A: Operators,
    y: Vectors,
    proximal: Proximals,
    L: Operators | None = None,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    *,
    rho: float = 1.0,
    is_rho_fixed: bool = False,
    eps_abs: float = 0.0,
    eps_rel: float = 1e-3,
    max_cg_iters: int = 20,
    batch_dims: BatchDims = 0,
    adjoint: Operators | None = None,
    L_adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(L x)` for a convex g.

    With z for L x and the scaled dual variable u, a step is

    .. math:: x' = \arg\min \tfrac12 |A x - y|^2 + \tfrac\rho2 |L x - z + u|^2, \quad
              z' = \mathrm{prox}_{g / \rho}(L x' + u), \quad u' = u + L x' - z'.

    Conjugate gradients solve for x', starting at x, as exactly as the residuals require. A and L
    must not have a common null space.

    The solver keeps seven vectors of the input (five of them for conjugate gradients) and four of
    the output of L. Gradients flow through the steps, and autograd then keeps all steps.

    Parameters
    ----------
    proximal : function, or a sequence of them
        The proximal map of g: a function of z and t, such as :func:`soft_threshold`.
    L : NamedLinop or function, or a sequence of them, optional
        The identity by default. If L is a sequence of operators, proximal is a sequence, and
        g(L x) is the sum of all :math:`g_k(L_k x)`.
    rho : float
        Weight of the constraint. It changes the speed and not the solution.
    is_rho_fixed : bool
        If False, the first half of the steps doubles or halves rho when one relative residual is
        more than ten times the other.
    eps_abs, eps_rel : float
        Stop when the primal residual :math:`|L x - z|` is at most
        :math:`\sqrt p \, \epsilon_{abs} + \epsilon_{rel} \max(|L x|, |z|)` and the dual one,
        :math:`|A^H (A x - y) + \rho L^H u|`, at most :math:`\sqrt n \, \epsilon_{abs} +
        \epsilon_{rel} \max(|\rho L^H u|, |A^H y|)`. For an exact x', the dual residual is the
        :math:`\rho |L^H (z' - z)|` of Boyd et al. The last term is from Stellato et al. With it
        eps_abs may be 0, and then the result does not depend on the unit of y. If L x is 0 at
        the solution, :math:`|L x|` and :math:`|z|` fall as the primal residual does. All three must
        then be at most the rounding of :math:`|y|^2 / |\rho u|`. If :math:`A^H y` is 0, tolerances
        are relative to the largest vectors of all steps so far.
    max_cg_iters : int
        Largest number of steps of conjugate gradients for one x'.
    batch_dims : int, or dimensions
        The dimensions that number independent problems, as for :func:`conjugate_gradients`, which
        then solves for each x' by itself: no gradient flows from one problem to another. With 0,
        the errors of a large problem may exceed the gradients of a small one. rho, ``eps_abs`` and
        ``eps_rel`` are for all problems together.
    A
        Of a NamedLinop, the normal ``A.N`` is used.
    L_adjoint : function, optional
        The adjoint of L. A function needs it.
    callback
        The ``values`` of a step are "rho", "primal" and "dual", the residuals divided by the
        factors of eps_rel, and, if the function of ``proximal`` is known, "objective":
        :math:`\frac12 |A x - y|^2 + g(z)`.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato and J. Eckstein, "Distributed optimization and
    statistical learning via the alternating direction method of multipliers", Foundations and
    Trends in Machine Learning 3 (2011), sections 3.3.1 and 3.4.1.

    B. Stellato, G. Banjac, P. Goulart, A. Bemporad and S. Boyd, "OSQP: an operator splitting
    solver for quadratic programs", Mathematical Programming Computation 12 (2020).

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> from linops_solvers import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = admm(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0), eps_rel=1e-5)
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    check_flags("admm", is_rho_fixed=is_rho_fixed)
    check_integer(_NAME, "max_cg_iters", max_cg_iters, 1)
    rho = check_real(_NAME, "rho", rho, above=0)
    eps_abs = check_real(_NAME, "eps_abs", eps_abs, 0)
    eps_rel = check_real(_NAME, "eps_rel", eps_rel, 0)
    problem = PenalizedProblem(_NAME, A, adjoint, y, proximal, x0, L, L_adjoint)
    progress = Progress(_NAME, max_num_iters, watching, space=problem.A.input)
    rho = rho / problem.unit_of_A**2
    options = _Options(rho, is_rho_fixed, max_cg_iters, eps_abs / problem.unit, eps_rel)
    systems = _axes_of_problems(A, L, problem.target, batch_dims)
    steps = _AdmmSteps(problem, progress, options, systems)
    values = {"primal": steps.primal, "dual": steps.dual, "rho": steps.rho_of_user(rho)}
    return progress.follow(steps, (values, None))


def _axes_of_problems(
    A: Operators, L: Operators | None, x: Tensor, batch_dims: BatchDims
) -> tuple[int, ...]:
    """Return the axes of x that number problems, through which A and L go slice by slice."""
    if batch_dims == 0:
        return ()
    axes: tuple[int, ...] = ()
    of_A, of_L = (
        cast(list[Operator], [*given] if isinstance(given, (list, tuple)) else [given])
        for given in (A, L)
    )
    for one in of_A:
        normal = one.N if isinstance(one, NamedLinop) else one
        axes = space_of_systems(_NAME, normal, x, batch_dims).systems
    for one in of_L:
        if isinstance(one, NamedLinop):
            check_batch_axes(_NAME, one.N, axes, x.ndim, "L")
    return axes


class _Options(NamedTuple):
    rho: float
    fixed: bool
    max_cg_iters: int
    eps_abs: float
    eps_rel: float


class _AdmmSteps(MovingSteps):
    """x, the z that follows L x, and the scaled dual variable u."""

    primal = dual = math.inf
    norm = primal_scale = dual_scale = 0.0
    iteration = 0

    def __init__(
        self,
        problem: PenalizedProblem,
        progress: Progress,
        options: _Options,
        systems: tuple[int, ...],
    ) -> None:
        self.problem, self.progress, self.options = problem, progress, options
        self.last_change_of_rho = 0 if options.fixed else progress.limit // 2
        pair, split, x = problem.A, problem.L, problem.first()
        self.normal_of_L = split.normal()
        if split.name == "L":
            check_adjoint(split, split.forward(split.input.random_like(x.detach())).clone())
        are_complex = pair.is_complex_linear and split.is_complex_linear
        self.vectors = Space(pair.input.totals, (), systems, are_complex)
        self.x, self.z, self.rho = x, split.forward(x), options.rho
        self.u = torch.zeros_like(self.z)
        unit, spaces = problem.unit_of_A, ((split.output, self.z), (pair.input, x))
        of_primal, of_dual = floors_of(options.eps_abs, *spaces)
        self._floors = of_primal * unit, of_dual / unit

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        return {
            **self.options._asdict(),
            "axes of systems": [*self.vectors.systems],
            **self.problem.fingerprint(),
        }

    def step(self) -> Measured:
        """Solve for x, apply the proximal map for z, and add the difference to u."""
        problem, options, rho = self.problem, self.options, self.rho
        pair, split, norm_of_y = problem.A, problem.L, problem.norm_of_y
        precision, rounding = torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)
        right = torch.add(problem.target, split.adjoint(self.z - self.u), alpha=rho)
        check_like(_NAME, "the output of the adjoint of L", right, "x", self.x)
        gtol = max(0.1 * min(1.0, self.primal, self.dual), precision)
        norm, x = self.solve_for_x(right, gtol), self.x
        image = split.forward(x)
        self.z = z = problem.proximal(image + self.u, 1 / rho)
        self.u = u = self.u + image - z
        back = split.adjoint(u)
        del right
        slopes = torch.add(problem.gradient(x), back, alpha=rho)
        slope, norm_of_back, norm_of_x, gap, norm_of_u, *norms = norms_of(
            _NAME,
            (pair.input, [slopes, back, x]),
            (split.output, [image - z, u, image, z]),
        )
        of_primal, of_dual, least = max(norms), max(rho * norm_of_back, problem.norm_of_target), 0.0
        # If A^H y is 0, the solution may be 0. Then only the vectors of the steps show a scale.
        if not problem.norm_of_target:
            of_primal = self.primal_scale = max(of_primal, self.primal_scale)
            of_dual = self.dual_scale = max(of_dual, self.dual_scale)
        elif norm_of_u:  # below this, the function cannot show that L x and z are not 0
            least = rounding * norm_of_y * (norm_of_y / of_dual) * (norm_of_back / norm_of_u)
            least = least if of_primal <= least else 0.0
        weight, units = options.eps_rel, (of_primal or 1.0, of_dual or 1.0)
        goals = max(self._floors[0] + weight * of_primal, least), self._floors[1] + weight * of_dual
        self.progress.goals.update(primal=goals[0] / units[0], dual=goals[1] / units[1])
        self.primal, self.dual = gap / units[0], slope / units[1]
        # The dual residual is a sum of three terms that may cancel, so it has the rounding of each.
        noise = rounding * (norm * norm_of_x + math.sqrt(norm) * norm_of_y + rho * norm_of_back)
        reason = reason_of_both((gap, slope), goals, (rounding * of_primal, noise))
        if options.eps_rel < precision:  # the residuals may not reach their goals
            worse = max(self.primal, self.dual)
            reason = reason or self.reason_of_move(worse, 0.0, 4 * rounding)
        self.iteration += 1
        values = {"primal": self.primal, "dual": self.dual, "rho": self.rho_of_user(rho)}
        if self.iteration <= self.last_change_of_rho:
            self.balance()
        return values, reason

    def rho_of_user(self, rho: float) -> float:
        """Return rho, given that in the unit of A."""
        return rho * self.problem.unit_of_A**2

    def solve_for_x(self, right: Tensor, gtol: float) -> float:
        """Solve for the next x; return the norm of the system, once a step has shown it."""
        pair, limit = self.problem.A, Progress(_NAME, self.options.max_cg_iters)

        def weighted(x: Tensor) -> Tensor:
            return torch.add(self.problem.normal(x), self.normal_of_L(x), alpha=self.rho)

        system = ConjugateSteps(
            weighted, None, self.vectors, right, self.x, (gtol, 0.0), pair.dtype
        )
        self.x = system.x  # the x before is not needed any more, and would take memory
        self.x = system.solve(limit)
        self.norm = system.norm() or self.norm
        return self.norm

    def balance(self) -> None:
        """Change rho if one of both residuals is much larger than the other."""
        first, primal, dual = self.options.rho, self.primal, self.dual
        factor = 2.0 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1.0
        rho = self.rho * factor
        # A residual of zero would double it until it overflows.
        if factor != 1 and first / _MOST <= rho <= first * _MOST:
            self.rho, self.u = rho, self.u / factor

    def shown(self) -> dict[str, float]:
        """Return the objective, for which A is applied to x; nothing if only a map is known."""
        return self.problem.objective(lambda: self.problem.misfit(self.x), self.z)

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        return self.problem.result(self.x)

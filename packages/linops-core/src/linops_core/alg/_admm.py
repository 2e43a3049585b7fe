"""The alternating direction method of multipliers, for regularised least squares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from ._conjugate_gradients import Run
from ._half import applied_in_half, narrowed, rounding_of, widened
from ._items import Items
from ._progress import Progress
from ._proximal import Proximal, check_proximal, in_moderate_unit
from ._step import Callback, StopReason, reason_of_both
from ._vectors import (
    Operator,
    check_count,
    check_like,
    check_vector,
    checked_number,
    magnitudes,
    normal_of,
    with_adjoint,
)

_NAME = "admm"


def admm(
    A: Operator,
    y: Tensor,
    proximal: Proximal,
    L: Operator | None = None,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    *,
    rho: float = 1.0,
    is_rho_fixed: bool = False,
    eps_abs: float = 0.0,
    eps_rel: float = 1e-3,
    max_cg_iters: int = 20,
    adjoint: Operator | None = None,
    L_adjoint: Operator | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(L x)` for a convex g.

    With z for L x and the scaled dual variable u, a step is

    .. math:: x' = \arg\min \tfrac12 |A x - y|^2 + \tfrac\rho2 |L x - z + u|^2, \quad
              z' = \mathrm{prox}_{g / \rho}(L x' + u), \quad u' = u + L x' - z'.

    The first is solved by conjugate gradients, from the last x on and as exactly as the residuals
    ask for; A and L must have no common null space.

    It takes the memory of ten vectors of the input (six of them for conjugate gradients) and four
    of the output of L. In half precision the vectors are in single precision, and what is given is
    applied in half. Gradients flow through the steps, all of which autograd then keeps.

    Parameters
    ----------
    A : NamedLinop or function
        Of a NamedLinop its normal ``A.N`` is used.
    y : Tensor
        Of the shape of the output of A; real or complex. It is one vector.
    proximal : function
        The proximal map of g: a function of z and t, such as :func:`soft_threshold`.
    L : NamedLinop or function, optional
        The identity by default.
    x0 : Tensor, optional
        Where to begin; zero by default.
    max_num_iters : int
        Number of steps after which to stop in any case.
    rho : float
        Weight of the constraint; the solution does not depend on it, and the speed does.
    is_rho_fixed : bool
        If False, rho is doubled or halved in the first half of the steps where one relative
        residual is more than ten times the other.
    eps_abs, eps_rel : float
        Stop when the primal residual :math:`|L x - z|` is at most
        :math:`\sqrt p \, \epsilon_{abs} + \epsilon_{rel} \max(|L x|, |z|)` and the dual one,
        :math:`|A^H (A x - y) + \rho L^H u|`, at most :math:`\sqrt n \, \epsilon_{abs} +
        \epsilon_{rel} \max(|\rho L^H u|, |A^H y|)`. Where x' is exact, the dual residual is the
        :math:`\rho |L^H (z' - z)|` of Boyd et al. With the last term eps_abs may be 0, as it is
        by default: then no result depends on the unit of y. ``CONVERGED`` allows for the rounding
        of both residuals; where that alone is more than the tolerance, it is ``ROUNDING``.
    max_cg_iters : int
        Number of steps of conjugate gradients for one x'.
    adjoint, L_adjoint : function, optional
        The adjoints, where A and L are functions and not NamedLinops.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    callback : function, optional
        Called with a :class:`Step` after every step. Its ``values`` are "primal" and "dual", the
        residuals divided by what eps_rel is multiplied with, and "rho".

    Returns
    -------
    Tensor
        Of the shape of the input of A.

    Raises
    ------
    TypeError
        If y is neither floating nor complex, or A or L is a function without adjoint.
    ValueError
        If shapes or dtypes do not fit, or a number is out of its range.
    ArithmeticError
        If the iteration meets NaN or infinity.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato and J. Eckstein, "Distributed optimization and
    statistical learning via the alternating direction method of multipliers", Foundations and
    Trends in Machine Learning 3 (2011), sections 3.3.1 and 3.4.1.

    B. Stellato, G. Banjac, P. Goulart, A. Bemporad and S. Boyd, "OSQP: an operator splitting
    solver for quadratic programs", Mathematical Programming Computation 12 (2020), for the term
    :math:`|A^H y|`.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> from linops_core.alg import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = admm(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0), eps_rel=1e-5)
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    check_vector(_NAME, "y", y)
    check_proximal(_NAME, "proximal", proximal)
    check_count(_NAME, "max_num_iters", max_num_iters)
    check_count(_NAME, "max_cg_iters", max_cg_iters, 1)
    rho = checked_number(_NAME, "rho", rho, is_positive=True)
    eps_abs = checked_number(_NAME, "eps_abs", eps_abs)
    eps_rel = checked_number(_NAME, "eps_rel", eps_rel)
    forward, backward = with_adjoint(_NAME, A, adjoint)
    split, unsplit = (_same, _same) if L is None else with_adjoint(_NAME, L, L_adjoint)
    dtype = y.dtype
    normal = applied_in_half(_NAME, normal_of(A, forward, backward), dtype, "A^H A")
    split_normal = _same
    if L is not None:
        split_normal = applied_in_half(_NAME, normal_of(L, split, unsplit), dtype, "L^H L")
        split = applied_in_half(_NAME, split, dtype, "L")
        unsplit = applied_in_half(_NAME, unsplit, dtype, "L^H")
    backward = applied_in_half(_NAME, backward, dtype, "A^H")
    proximal = applied_in_half(_NAME, proximal, dtype, "the proximal map")
    y = widened(y)
    unit, proximal = in_moderate_unit(_NAME, y, proximal)
    (y_size,) = magnitudes(_NAME, y / unit)
    target = backward(y / unit)
    if x0 is not None:
        check_vector(_NAME, "x0", x0)
        x0 = widened(x0)
    x = torch.zeros_like(target) if x0 is None else x0 / unit
    check_like(_NAME, "x0", x, "the output of the adjoint", target)
    z = split(x)
    u = torch.zeros_like(z)
    precision, rounding = torch.finfo(dtype).eps, rounding_of(dtype)
    close, norm = 1.0, 0.0

    def result() -> Tensor:
        return narrowed(x * unit, dtype)

    with Progress(_NAME, max_num_iters, tqdm_kwargs, callback) as progress:
        if max_num_iters == 0:
            values = {"primal": math.inf, "dual": math.inf, "rho": rho}
            progress.tell(0, result, values, StopReason.MAX_ITERATIONS)
        for iteration in range(1, max_num_iters + 1):
            right = torch.add(target, unsplit(z - u), alpha=rho)
            check_like(_NAME, "the output of the adjoint of L", right, "x", x)
            weighted = partial(_weighted, normal, split_normal, rho)
            tolerances = (max(0.1 * close, precision), 0.0)
            run = Run(weighted, None, Items(()), right, x, tolerances, dtype)
            x = run.solve(max_cg_iters, Progress("admm", max_cg_iters, None, None))
            norm = run.norm() or norm
            del run  # and what it keeps
            image = split(x)
            shifted = image + u
            z = proximal(shifted, 1 / rho)
            check_like(_NAME, "what the proximal map returns", z, "the output of L", image)
            u = shifted - z
            back = unsplit(u)
            stationary = torch.add(normal(x) - target, back, alpha=rho)
            gap, slope, *sizes, back_size, target_size, x_size = magnitudes(
                _NAME, image - z, stationary, image, z, back, target, x
            )
            primal_size, dual_size = max(sizes), max(rho * back_size, target_size)
            goals = (
                eps_abs / unit * math.sqrt(z.numel()) + eps_rel * primal_size,
                eps_abs / unit * math.sqrt(x.numel()) + eps_rel * dual_size,
            )
            # The second is a sum of terms that may cancel, each rounded as what it is made of.
            noises = (
                rounding * primal_size,
                rounding * (norm * x_size + math.sqrt(norm) * y_size + rho * back_size),
            )
            primal, dual = gap / (primal_size or 1.0), slope / (dual_size or 1.0)
            reason = reason_of_both((gap, slope), goals, noises)
            if eps_rel < precision and max(primal, dual) <= precision:
                reason = reason or StopReason.ROUNDING
            if iteration == max_num_iters:
                reason = reason or StopReason.MAX_ITERATIONS
            values = {"primal": primal, "dual": dual, "rho": rho}
            progress.tell(iteration, result, values, reason)
            if reason is not None:
                break
            close = min(1.0, primal, dual)
            if not is_rho_fixed and iteration <= max_num_iters // 2:
                factor = 2.0 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1.0
                rho, u = rho * factor, u / factor
    return result()


def _weighted(first: Operator, second: Operator, weight: float, x: Tensor) -> Tensor:
    return torch.add(first(x), second(x), alpha=weight)


def _same(x: Tensor) -> Tensor:
    return x

"""Iteratively reweighted least squares: the p-norm of residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from linops_core.siblings import check_vector

from .._krylov._conjugate_gradients import Run
from .._shared._checks import Operator, check_count, check_like, checked_number
from .._shared._precision import OperatorPair, in_given_precision, rounding_of, widened
from .._shared._progress import Callback, Iterate, Progress, StopReason
from .._shared._space import added
from .._shared._vectors import BatchedVectors

_NAME = "irls"


def irls(
    A: Operator,
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    tol: float = 1e-4,
    *,
    p: float = 1.0,
    epsilon: float = 1e-3,
    damp: float = 0.0,
    max_cg_iters: int = 50,
    adjoint: Operator | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The x that minimises :math:`\frac1p \sum_n (|A x - y|_n^2 + e^2)^{p/2} + \frac{d^2}2 |x|^2`.

    With p = 1, the default, outliers in y have little influence (least absolute deviations). A step
    solves a least-squares problem with weights W = :math:`(|A x - y|_n^2 + e^2)^{p/2 - 1}` by
    conjugate gradients. The function is convex: with its gradient g, it is above its minimum by at
    most :math:`|g| |x - x_*|`. The solver stops when :math:`|g|` times the largest of the lengths
    of x, of the x before and of the last step is at most ``tol`` times the function.

    The solver keeps nine vectors of the input and four of the output. Gradients flow through the
    steps, and autograd then keeps all steps.

    Parameters
    ----------
    tol : float
        Bound of the excess of the function over its minimum, relative to the function, as above.
    p : float
        Exponent of the norm of the residual, from 1 to 2.
    epsilon : float
        e, relative to the root mean square of y. Residuals below e count as squares. A smaller
        value needs more steps.
    damp : float
        d. It must not be 0 if the columns of A are dependent.
    max_cg_iters : int
        Largest number of steps of conjugate gradients in one step.
    A, y, x0, max_num_iters, adjoint, tqdm_kwargs, callback
        See :mod:`linops_solvers`. The ``values`` of a step are "gap", which ``tol`` bounds, and
        "loss", the function, in the unit of y.

    References
    ----------
    R. Chartrand and W. Yin, "Iteratively reweighted algorithms for compressive sensing", ICASSP
    (2008), 3869-3872.

    P. W. Holland and R. E. Welsch, "Robust regression using iteratively reweighted least-squares",
    Communications in Statistics: Theory and Methods 6 (1977), 813-827.

    Examples
    --------
    The median, which an outlier does not move:

    >>> from linops_core import Dense
    >>> A = Dense.from_einstr(torch.ones(5, 1), "MN,N->M")
    >>> torch.round(irls(A, torch.tensor([1.0, 2.0, 3.0, 4.0, 1000.0]), epsilon=1e-5), decimals=2)
    tensor([3.])
    """
    check_vector(_NAME, "y", y)
    check_count(_NAME, "max_num_iters", max_num_iters)
    check_count(_NAME, "max_cg_iters", max_cg_iters, 1)
    tol, damp = checked_number(_NAME, "tol", tol), checked_number(_NAME, "damp", damp)
    p = checked_number(_NAME, "p", p)
    epsilon = checked_number(_NAME, "epsilon", epsilon, is_positive=True)
    if not 1 <= p <= 2:
        raise ValueError(f"{_NAME}: p must be between 1 and 2, got {p}")
    pair = OperatorPair(_NAME, A, adjoint, y.dtype)
    unit = pair.output.unit_of(_NAME, widened(y))
    scaled, damping = widened(y) / unit, damp**2 * unit ** (2 - p)
    (size,) = pair.magnitudes([], [scaled])
    softness = (epsilon * (size or 1.0) / math.sqrt(max(pair.output.count(y), 1))) ** 2
    rounding = rounding_of(y.dtype)

    def steps() -> Iterator[Iterate[Tensor]]:
        x = torch.zeros_like(pair.adjoint(scaled)) if x0 is None else widened(x0) / unit
        image = pair.forward(x)
        check_like(_NAME, "the output of A", image, "y", scaled)
        # Each step subtracts its image. Computed anew, the smallest residuals, which have the
        # largest weights, would be rounding.
        residual, step, reach = scaled - image, torch.zeros_like(x), math.inf
        while True:
            squares = residual.abs().square() + softness
            weights = squares ** (p / 2 - 1)
            slopes = pair.adjoint(weights * residual)
            check_like(_NAME, "x0", x, "the output of the adjoint", slopes)
            descent = torch.sub(slopes, x, alpha=damping)
            slope, length, moved, pull, misfit_size = pair.magnitudes(
                [descent, x, step], [weights * residual, residual]
            )
            misfit, square = added(
                pair.output.terms(lambda s: s.pow(p / 2).sum(), squares.detach()),
                pair.input.terms(lambda x: x.abs().square().sum(), x.detach()),
            )
            loss = float(misfit) / p + damping / 2 * float(square)
            gap = slope * max(length, reach, moved) / (loss or 1.0) if slope else 0.0
            noise = rounding * pull * (size + misfit_size) / (loss or 1.0)
            reason = None
            if gap + noise <= tol or not slope:
                reason = StopReason.CONVERGED
            elif gap <= noise:
                reason = StopReason.ROUNDING
            yield x, {"gap": gap, "loss": loss * unit**p}, reason
            step = _step(weights, descent)
            x, residual, reach = x + step, residual - pair.forward(step), length

    def _step(weights: Tensor, descent: Tensor) -> Tensor:
        def normal(x: Tensor) -> Tensor:
            return torch.add(pair.adjoint(weights * pair.forward(x)), x, alpha=damping)

        vectors = BatchedVectors(
            totals=pair.input.totals, has_complex_products=pair.is_complex_linear
        )
        run = Run(normal, None, vectors, descent, None, (0.1, 0.0), pair.dtype)
        return run.solve(Progress(_NAME, max_cg_iters))

    def result(x: Tensor) -> Tensor:
        return in_given_precision(_NAME, x * unit, y.dtype)

    progress = Progress(_NAME, max_num_iters, tqdm_kwargs, callback, goals={"gap": tol})
    return result(progress.follow(steps(), result))

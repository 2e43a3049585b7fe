"""What LSQR and LSMR share: the problem, the rules by which they stop, and the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ._bidiagonal import Bidiagonalization
from ._implicit import attach
from ._progress import Progress
from ._step import StopReason
from ._vectors import Operator, check_count, check_like, check_vector, unit_of

_MOST_DAMPED = 200
"""Exponent of the largest ratio of damp and A: fourth powers stay far within double precision."""


@dataclass(frozen=True)
class Problem:
    """Minimise |A x - y|^2 + damp^2 |x - x0|^2."""

    owner: str
    A: Operator
    adjoint: Operator
    y: Tensor
    x0: Tensor | None = None
    damp: float = 0.0


@dataclass(frozen=True)
class Norms:
    """Norms as the recurrences give them; those of the damped problem where it is damped."""

    residual: float
    """|r|"""
    gradient: float
    """|A^H r|"""
    norm: float
    """|A|, of Frobenius"""
    condition: float
    """|A| |A^+|"""
    x: float
    """|x|"""


class Recurrence(Protocol):
    """How a method goes on from the bidiagonalisation to x."""

    def __init__(self, pair: Bidiagonalization, damp: float, gain: float = 1.0) -> None:
        """Begin; the x that ``step`` moves is the solution times the gain."""

    def step(self, x: Tensor) -> Norms:
        """Do one step of the bidiagonalisation and move x, in place."""


@dataclass(frozen=True)
class Tolerances:
    """The rules of Paige and Saunders, section 6, and the same at the limits of precision."""

    atol: float
    btol: float
    conlim: float

    def reason(self, norms: Norms, y: float, precision: float) -> StopReason | None:
        """Return why to stop, or None to go on; y is |y|."""
        size = norms.norm * norms.x / y
        residual = norms.residual / y
        goal = self.btol + self.atol * size
        gradient = relative_gradient(norms)
        # What a recurrence says below the precision, the vectors do not follow.
        if residual <= goal and goal >= precision * (1 + size):
            return StopReason.CONVERGED
        if gradient <= self.atol and self.atol >= precision:
            return StopReason.LEAST_SQUARES
        if self.conlim and norms.condition >= self.conlim:
            return StopReason.ILL_CONDITIONED
        smallest = min(gradient, 1 / max(norms.condition, 1.0), residual / (1 + size))
        return StopReason.ROUNDING if smallest <= precision else None


def relative_gradient(norms: Norms) -> float:
    """Return |A^H r| / (|A| |r|); 0 where r is."""
    under = norms.norm * norms.residual
    return norms.gradient / under if under else 0.0


def least_squares(
    problem: Problem,
    method: type[Recurrence],
    tolerances: Tolerances,
    max_num_iters: int | None,
    watched: Callable[[int], Progress],
) -> Tensor:
    """Return the solution, with the gradients that the exact one has.

    ``watched`` makes what tells of the steps; it is given the largest number of them.
    """
    owner, y, A, adjoint = problem.owner, problem.y, problem.A, problem.adjoint
    check_vector(owner, "y", y)
    if not 0 <= problem.damp < math.inf:
        raise ValueError(f"{owner}: damp must be at least 0 and finite, got {problem.damp}")
    for name, value in vars(tolerances).items():
        if not value >= 0:
            raise ValueError(f"{owner}: {name} must be at least 0, got {value}")
    if max_num_iters is not None:
        check_count(owner, "max_num_iters", max_num_iters)

    def solve(problem: Problem, watched: Callable[[int], Progress]) -> Tensor:
        return _solve(problem, method, tolerances, max_num_iters, watched)

    with torch.no_grad():
        x = solve(problem, watched)
    if not torch.is_grad_enabled():
        return x
    gradient = adjoint(y - A(x))  # of half the squares, but for the constant damp^2 (x - x0)
    if not gradient.requires_grad:
        return x

    def normal_inverse(g: Tensor) -> Tensor:
        """Return (A^H A + damp^2)^-1 g: two least-squares solutions, as exact as the first."""
        forth, back = (A, adjoint) if not problem.damp else _augmented(problem, x)

        def unwatched(total: int) -> Progress:
            return Progress(owner, total, None, None)

        z = solve(Problem(owner, back, forth, g), unwatched)
        return solve(Problem(owner, forth, back, z), unwatched)

    return attach(x, gradient, normal_inverse, owner, (A, adjoint))


def _augmented(problem: Problem, x: Tensor) -> tuple[Operator, Operator]:
    """Return A above damp times the identity, as one operator to vectors, and its adjoint."""
    cut, damp = problem.y.numel(), problem.damp

    def forth(x: Tensor) -> Tensor:
        return torch.cat([problem.A(x).flatten(), damp * x.flatten()])

    def back(z: Tensor) -> Tensor:
        return problem.adjoint(z[:cut].reshape(problem.y.shape)) + damp * z[cut:].reshape(x.shape)

    return forth, back


def _solve(
    problem: Problem,
    method: type[Recurrence],
    tolerances: Tolerances,
    max_num_iters: int | None,
    watched: Callable[[int], Progress],
) -> Tensor:
    owner, x0 = problem.owner, problem.x0
    residual = problem.y.clone() if x0 is None else problem.y - problem.A(x0)
    check_like(owner, "the output of A", residual, "y", problem.y)
    unit = unit_of(owner, residual)
    pair = Bidiagonalization(owner, problem.A, problem.adjoint, residual.div_(unit))
    if x0 is not None:
        check_like(owner, "x0", x0, "the output of the adjoint", pair.v)
    x = torch.zeros_like(pair.v)
    if max_num_iters is None:
        max_num_iters = 2 * x.numel()

    exponent = _exponent(unit)

    def result(memory: Tensor | None = None) -> Tensor:
        # Two factors, because the inverse of the unit of A may leave the range where x does not.
        half = exponent // 2
        found = torch.mul(x, 2.0**half, out=memory).mul_(2.0 ** (exponent - half))
        if abs(exponent) > 16 and not found.isfinite().all():
            raise ArithmeticError(
                f"{owner}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got infinity"
            )
        return found if x0 is None else found.add_(x0)

    reason = StopReason.MAX_ITERATIONS if max_num_iters == 0 else None
    if pair.alpha and reason is None:
        pair.begin()
    if not pair.alpha:
        reason = StopReason.LEAST_SQUARES if pair.beta else StopReason.CONVERGED
    with watched(max_num_iters) as progress:
        if reason is not None:
            values = {"residual": float(pair.beta > 0), "gradient": float(pair.alpha > 0)}
            progress.tell(0, result, {**values, "condition": 1.0}, reason)
            return result()
        y, precision = pair.beta, torch.finfo(x.dtype).eps
        # x, which is about |A| |y| / (|A|^2 + damp^2), is kept in a unit in which it is near 1.
        ratio = max(0, _exponent(problem.damp) - _exponent(pair.unit)) if problem.damp else 0
        if ratio > _MOST_DAMPED:
            raise ArithmeticError(
                f"{owner}: damp must be less than 2^{_MOST_DAMPED} times the scale of A, got "
                f"{problem.damp:.3g} and {pair.unit:.3g}"
            )
        recurrence = method(pair, problem.damp / pair.unit, 4.0**ratio)
        exponent -= _exponent(pair.unit) + 2 * ratio
        for iteration in range(1, max_num_iters + 1):
            norms = recurrence.step(x)
            reason = tolerances.reason(norms, y, precision)
            if reason is None and iteration == max_num_iters:
                reason = StopReason.MAX_ITERATIONS
            values = {
                "residual": norms.residual / y,
                "gradient": relative_gradient(norms),
                "condition": norms.condition,
            }
            progress.tell(iteration, result, values, reason)
            if reason is not None:
                break
    return result(x)


def _exponent(value: float) -> int:
    """Return the exponent of the power of two below a positive number."""
    return math.frexp(value)[1] - 1

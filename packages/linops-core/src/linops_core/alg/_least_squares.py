"""What LSQR and LSMR share: the problem, the rules by which they stop, and the gradients."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from ._bidiagonal import Bidiagonalization
from ._checks import Operator, check_count, check_like, check_vector, checked_number
from ._implicit import attach
from ._precision import (
    OperatorPair,
    checked_adjoint,
    in_given_precision,
    rounding_of,
    widened,
)
from ._progress import Iterate, Progress
from ._step import Callback, ConvergenceWarning, StopReason
from ._vectors import magnitudes, unit_of

_MOST_DAMPED = 200
"""Exponent of the largest ratio of damp and A: fourth powers stay far within double precision."""


@dataclass(frozen=True)
class Problem:
    """Minimise |A x - y|^2 + damp^2 |x - x0|^2."""

    owner: str
    A: Operator
    adjoint: Operator | None
    y: Tensor
    x0: Tensor | None = None
    damp: float = 0.0


class Norms(NamedTuple):
    """Norms of a step, or of an x; those of the damped problem where it is damped."""

    residual: float  # |r|
    gradient: float  # |A^H r|
    norm: float  # |A|, the largest length of A v for a unit vector v so far
    condition: float  # |A| |A^+|
    x: float  # |x|

    @property
    def relative_gradient(self) -> float:
        """|A^H r| / (|A| |r|); 0 where r is."""
        under = self.norm * self.residual
        return self.gradient / under if under else 0.0


class Recurrence(Protocol):
    """A step of the bidiagonalisation that moves x, in place."""

    def step(self, x: Tensor) -> Norms: ...


Method: TypeAlias = Callable[[Bidiagonalization, float, float], Recurrence]
"""Begins with u and v; takes damp, and what the x that is moved is times the solution."""


@dataclass(frozen=True)
class Tolerances:
    """The rules of Paige and Saunders, section 6, and the same at the limits of precision."""

    atol: float
    btol: float
    conlim: float

    def checked(self, owner: str) -> Tolerances:
        """Return the same as floats, each checked to be in its range."""
        return Tolerances(
            checked_number(owner, "atol", self.atol),
            checked_number(owner, "btol", self.btol),
            checked_number(owner, "conlim", self.conlim, may_be_inf=True),
        )

    def goal(self, norms: Norms, y: float) -> float:
        """Return how large |r| may be; y is |y|."""
        return self.btol * y + self.atol * norms.norm * norms.x

    def claim(self, norms: Norms, y: float, precision: float) -> StopReason | None:
        """Return in which way the recurrence says that x is a solution, if it does."""
        size = norms.norm * norms.x + y
        goal = self.goal(norms, y)
        # What a recurrence says below the precision, the vectors do not follow.
        if norms.residual <= goal and goal >= precision * size:
            return StopReason.CONVERGED
        if norms.relative_gradient <= self.atol and self.atol >= precision:
            return StopReason.LEAST_SQUARES
        return None

    def end(self, norms: Norms, y: float, precision: float) -> StopReason | None:
        """Return why more steps would do no good, if they would not."""
        if self.conlim and norms.condition >= self.conlim:
            return StopReason.ILL_CONDITIONED
        residual = norms.residual / (norms.norm * norms.x + y)
        smallest = min(norms.relative_gradient, 1 / max(norms.condition, 1.0), residual)
        return StopReason.ROUNDING if smallest <= precision else None


def least_squares(
    method: Method,
    problem: Problem,
    tolerances: Tolerances,
    max_num_iters: int | None,
    tqdm_kwargs: Mapping[str, object] | None,
    callback: Callback | None,
) -> Tensor:
    """Return the solution, with the gradients that the exact one has."""
    owner, y, A = problem.owner, problem.y, problem.A
    adjoint = checked_adjoint(owner, A, problem.adjoint)
    check_vector(owner, "y", y)
    damp = checked_number(owner, "damp", problem.damp)
    problem = dataclasses.replace(problem, adjoint=adjoint, damp=damp)
    tolerances = tolerances.checked(owner)
    if max_num_iters is not None:
        check_count(owner, "max_num_iters", max_num_iters)

    def solve(
        problem: Problem,
        tqdm_kwargs: Mapping[str, object] | None = None,
        callback: Callback | None = None,
    ) -> Tensor:
        run = _Run(problem, method, tolerances)
        limit = 2 * run.x.numel() if max_num_iters is None else max_num_iters
        progress = Progress(owner, limit, tqdm_kwargs, callback)
        progress.follow(run.steps(limit), lambda run: run.result())
        if run.complaint is not None:
            warnings.warn(run.complaint, ConvergenceWarning, stacklevel=4)
        return run.result()

    with torch.no_grad():
        x = solve(problem, tqdm_kwargs, callback)
    if not torch.is_grad_enabled():
        return x
    gradient = adjoint(y - A(x))  # of half the squares, but for the constant damp^2 (x - x0)
    if not gradient.requires_grad:
        return x

    def normal_inverse(g: Tensor) -> Tensor:
        """Return (A^H A + damp^2)^-1 g: two least-squares solutions, as exact as the first."""
        forth, back = _augmented(problem, adjoint, x) if damp else (A, adjoint)
        z = solve(Problem(owner, back, forth, g))
        return solve(Problem(owner, forth, back, z))

    return attach(x, gradient, normal_inverse, owner, (A, adjoint))


def _augmented(problem: Problem, adjoint: Operator, x: Tensor) -> tuple[Operator, Operator]:
    """Return A above damp times the identity, as one operator to vectors, and its adjoint."""
    cut, damp = problem.y.numel(), problem.damp

    def forth(x: Tensor) -> Tensor:
        return torch.cat([problem.A(x).flatten(), damp * x.flatten()])

    def back(z: Tensor) -> Tensor:
        return adjoint(z[:cut].reshape(problem.y.shape)) + damp * z[cut:].reshape(x.shape)

    return forth, back


class _Run:
    """One run, in units in which y - A x0 and A are near 1."""

    def __init__(self, problem: Problem, method: Method, tolerances: Tolerances) -> None:
        self.owner, self.damp, self.dtype = problem.owner, problem.damp, problem.y.dtype
        self.method, self.tolerances = method, tolerances
        self.precision = torch.finfo(self.dtype).eps
        self.A = OperatorPair(self.owner, problem.A, problem.adjoint, self.dtype)
        self.y = widened(problem.y)
        self.x0 = None if problem.x0 is None else widened(problem.x0)
        residual = self.y.clone() if self.x0 is None else self.y - self.A.forward(self.x0)
        check_like(self.owner, "the output of A", residual, "y", self.y)
        self.unit = unit_of(self.owner, residual)
        self.pair = Bidiagonalization(self.A, residual.div_(self.unit))
        if self.x0 is not None:
            check_like(self.owner, "x0", self.x0, "the output of the adjoint", self.pair.v)
        self.x = torch.zeros_like(self.pair.v)
        self.exponent, self.gain = _exponent(self.unit), 1.0
        self.complaint: str | None = None
        # What the recurrence said when x was found not to be as good, for either claim.
        self.denied = {StopReason.CONVERGED: math.inf, StopReason.LEAST_SQUARES: math.inf}

    def result(self) -> Tensor:
        """Return x0 and the change in the unit and dtype of the caller."""
        # Two factors, because the inverse of the unit of A may leave the range where x does not.
        half = self.exponent // 2
        found = torch.mul(self.x, 2.0**half).mul_(2.0 ** (self.exponent - half))
        found = found if self.x0 is None else found.add_(self.x0)
        is_extreme = abs(self.exponent) > 16
        return in_given_precision(self.owner, found, self.dtype, may_be_extreme=is_extreme)

    def steps(self, limit: int) -> Iterator[Iterate[_Run]]:
        """Move x, up to the limit."""
        pair, reason = self.pair, None
        if pair.alpha and limit:
            pair.begin()
        if not pair.alpha:
            is_proved = pair.unseen + rounding_of(self.dtype) <= self.tolerances.atol
            reason = StopReason.LEAST_SQUARES if is_proved else StopReason.ROUNDING
            reason = reason if pair.beta else self.at_start()
        values = {"residual": float(pair.beta > 0), "gradient": float(pair.alpha > 0)}
        yield self, {**values, "condition": 1.0}, reason
        y = pair.beta
        # x, which is about |A| |y| / (|A|^2 + damp^2), is kept in a unit in which it is near 1.
        ratio = max(0, _exponent(self.damp) - _exponent(pair.unit)) if self.damp else 0
        if ratio > _MOST_DAMPED:
            raise ArithmeticError(
                f"{self.owner}: damp must be less than 2^{_MOST_DAMPED} times the scale of A, got "
                f"{self.damp:.3g} and {pair.unit:.3g}"
            )
        self.gain = 4.0**ratio
        recurrence = self.method(pair, self.damp / pair.unit, self.gain)
        self.exponent -= _exponent(pair.unit) + 2 * ratio
        while True:
            norms, reason = self.judged(recurrence.step(self.x), y)
            values = {
                "residual": norms.residual / y,
                "gradient": norms.relative_gradient,
                "condition": norms.condition,
            }
            yield self, values, reason

    def at_start(self) -> StopReason:
        """Return what a residual of 0 means that was computed from x0."""
        if self.x0 is None:
            return StopReason.CONVERGED
        size, moved = magnitudes(self.owner, self.y, self.A.forward(self.x0))
        is_proved = rounding_of(self.dtype) * moved <= self.tolerances.btol * size
        return StopReason.CONVERGED if is_proved else StopReason.ROUNDING

    def judged(self, norms: Norms, y: float) -> tuple[Norms, StopReason | None]:
        """Return why to stop, if at all, and the norms on which that is based.

        A claim of the recurrence counts where the norms of x itself, which are computed for it,
        confirm it with an allowance for their rounding. Where they do not, it is looked at again
        when the recurrence is at half of what it was.
        """
        claim = self.tolerances.claim(norms, y, self.precision)
        if claim is not None:
            said = norms.residual if claim is StopReason.CONVERGED else norms.relative_gradient
            if said <= 0.5 * self.denied[claim]:
                found, rounding = self.measured(norms, claim is StopReason.LEAST_SQUARES)
                if self.confirms(claim, found, rounding, y):
                    return found, claim
                self.denied[claim] = said
        reason = self.tolerances.end(norms, y, self.precision)
        if reason is None:
            return norms, None
        found, _ = self.measured(norms, True)
        self.complain(found, y)
        return found, reason

    def confirms(self, claim: StopReason, found: Norms, rounding: float, y: float) -> bool:
        """Whether the norms of x confirm the claim, whatever their rounding."""
        if claim is StopReason.CONVERGED:
            return found.residual + rounding <= self.tolerances.goal(found, y)
        allowed = self.tolerances.atol * found.norm * (found.residual - rounding)
        return found.gradient + self.pair.norm * rounding <= allowed

    def measured(self, norms: Norms, with_gradient: bool) -> tuple[Norms, float]:
        """Return the norms of x itself, and how far rounding may have moved its residual."""
        x = widened(self.result())
        residual = (self.y - self.A.forward(x)) / self.unit
        damping = self.damp / self.pair.unit
        vectors = [residual, self.x, x / self.unit]
        if with_gradient:
            gradient = self.A.adjoint(residual) / self.pair.unit
            vectors.append(gradient.sub_(self.x, alpha=damping**2 / self.gain))
        length, moved, size, *slopes = magnitudes(self.owner, *vectors)
        moved /= self.gain
        found = norms._replace(
            residual=math.hypot(length, damping * moved),
            x=moved,
            gradient=slopes[0] if with_gradient else norms.gradient,
        )
        rounding = rounding_of(self.dtype) * self.pair.norm * size * self.pair.unit
        return found, rounding

    def complain(self, found: Norms, y: float) -> None:
        """Note what a user has to be told who does not ask why the solver stopped."""
        coarse = math.sqrt(self.precision)
        atol, btol = max(self.tolerances.atol, coarse), max(self.tolerances.btol, coarse)
        gradient = found.relative_gradient
        if found.residual > btol * y + atol * found.norm * found.x and gradient > atol:
            self.complaint = (
                f"{self.owner}: the residual r must fall to btol |y| + atol |A| |x|, or |A^H r| to "
                f"atol |A| |r|, got |r| = {found.residual / y:.2g} |y| and |A^H r| = "
                f"{gradient:.2g} |A| |r|, and more steps do not help in {self.dtype}: A is too "
                f"ill-conditioned (about {found.condition:.2g}); give damp, a wider dtype or a "
                "preconditioned A"
            )


def _exponent(value: float) -> int:
    """Return the exponent of the power of two below a positive number."""
    return math.frexp(value)[1] - 1

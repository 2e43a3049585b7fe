"""Shared by LSQR and LSMR: the stopping rules and the gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from linops_core.siblings import check_real, check_vector, is_differentiated

from .._shared._checks import Operator, check_like, check_output
from .._shared._options import Checkpointed
from .._shared._precision import OperatorPair, at_least_single, in_given_precision, rounding_of
from .._shared._progress import FAR, Progress, SolverSteps
from .._shared._reports import Measured, StopReason
from .._shared._space import Space
from .._shared._stacked import Operators, StackedOperators, Vectors, one_vector, stacked_operator
from ._bidiagonal import Bidiagonalization
from ._implicit import attach_gradient, has_gradient

_MOST_DAMPED = 200  # exponent of the largest ratio of damp and A, whose 4th power is in range


class Norms(NamedTuple):
    """Norms of a step or of an x, of the damped problem if there is damping."""

    residual: float  # |r|
    gradient: float  # |A^H r|
    norm: float  # the largest |A v| for a unit vector v so far
    condition: float  # |A| |A^+|
    x: float  # |x|

    @property
    def relative_gradient(self) -> float:
        """|A^H r| / (|A| |r|), or 0 if r is 0."""
        under = self.norm * self.residual
        return self.gradient / under if under else 0.0


class Recurrence(Protocol):
    """Updates x, which is ``gain`` times the solution, by steps of the bidiagonalisation."""

    def __init__(self, pair: Bidiagonalization, damp: float, gain: float) -> None: ...
    def step(self, x: Tensor) -> Norms: ...


class LeastSquaresOptions(NamedTuple):
    """The options of LSQR and LSMR."""

    damp: float
    atol: float
    btol: float
    conlim: float


def least_squares(
    owner: str,
    method: type[Recurrence],
    A: Operators,
    adjoint: Operators | None,
    y: Vectors,
    x0: Tensor | None,
    options: LeastSquaresOptions,
    max_num_iters: int | None,
    watching: Checkpointed,
) -> Tensor:
    """Return the solution, with the gradients of the exact solution."""
    A, adjoint = stacked_operator(owner, "A", A, adjoint)
    y = one_vector(owner, "y", y, A)
    check_vector(owner, "y", y)
    pair = OperatorPair(owner, A, adjoint, y.dtype)
    options = LeastSquaresOptions(
        *(
            check_real(owner, name, value, 0, may_be_inf=name == "conlim")
            for name, value in options._asdict().items()
        )
    )

    def limit(steps: _LeastSquaresSteps) -> int:
        return 2 * steps.A.input.count(steps.x) if max_num_iters is None else max_num_iters

    with torch.no_grad():
        steps = _LeastSquaresSteps(pair, y, x0, options)
        progress = Progress(owner, limit(steps), watching, space=steps.A.input)
        x = steps.solve(method, progress)
    del steps

    def solve_undamped(pair: OperatorPair, y: Tensor) -> Tensor:
        steps = _LeastSquaresSteps(pair, y, None, options._replace(damp=0.0))
        return steps.solve(method, progress.again(limit(steps)))

    if not (torch.is_grad_enabled() or is_differentiated()):
        return x
    if x.is_complex() and pair.is_complex_linear:
        y = y.to(y.dtype.to_complex())
    A, adjoint = pair.given
    image = A(x)
    gradient = adjoint(y - image)  # less damp^2 (x - x0), in which only x0 is no constant
    if x0 is not None:  # two products, because the square of damp may overflow
        gradient = gradient + options.damp * (options.damp * x0)
    if not has_gradient(owner, gradient):
        return x
    (forth, back), input_space, output = pair.given, pair.input, pair.output
    if options.damp:
        both = StackedOperators(owner, "A", [forth, damped := _times(options.damp)], [back, damped])
        both.joined([y, x])  # only for the shapes, which it needs to split its output
        # If A is linear over the reals only, one side may be real and the other one complex.
        both.are_real = [not y.is_complex(), not x.is_complex()]
        forth, back = both.forward, both.adjoint
        output = Space(blocks=(output, input_space), split=both.split)

    def of_adjoint(g: Tensor) -> Tensor:
        """Return the z with the smallest |A^H z - g|."""
        first = OperatorPair(owner, back, forth, g.dtype, like=pair, spaces=(output, input_space))
        return solve_undamped(first, g)

    # dx = (A^H A + damp^2)^+ d(A^H (y - A x) + damp^2 x0) + P d(A^H z + x0) with z = A^+^H (x - x0)
    # and P = 1 - A^+ A (Golub and Pereyra 1973). P is 0 with damp.
    has_free = not options.damp and (image.requires_grad or (x0 is not None and x0.requires_grad))
    defects = [gradient]
    if has_free:
        with torch.no_grad():
            z = of_adjoint(x if x0 is None else x - x0)
        defects.append(adjoint(z) if x0 is None else adjoint(z) + x0)

    def to_defects(g: Tensor) -> tuple[Tensor, None]:
        """Return what reaches each defect: least-squares solutions, as exact as the first."""
        z = of_adjoint(g)
        second = OperatorPair(owner, forth, back, z.dtype, like=pair, spaces=(input_space, output))
        solution = solve_undamped(second, z)
        return torch.stack([solution, g - back(z)] if has_free else [solution]), None

    return attach_gradient(x, torch.stack(defects), to_defects, owner, pair.given)


def _times(factor: float) -> Operator:
    return lambda x: factor * x


class _LeastSquaresSteps(SolverSteps):
    """One problem, in units in which y - A x0 and A are near 1."""

    def __init__(
        self, A: OperatorPair, y: Tensor, x0: Tensor | None, options: LeastSquaresOptions
    ) -> None:
        self.A, self.options, self.dtype, self.owner = A, options, A.dtype, A.owner
        self.precision = torch.finfo(self.dtype).eps
        self.y, self.x0 = at_least_single(y), None if x0 is None else at_least_single(x0)
        residual = self.y.clone() if self.x0 is None else self.y - self.A.forward(self.x0)
        check_output(A.owner, A, residual, self.y)
        self.unit = A.output.unit_of(A.owner, residual)
        self.pair = Bidiagonalization(self.A, residual.div_(self.unit))
        if self.x0 is not None:
            check_like(A.owner, "x0", self.x0, "the output of the adjoint", self.pair.v)
        self.x, self.norm_of_y = torch.zeros_like(self.pair.v), self.pair.beta  # |y|, or |y - A x0|
        self.exponent, self.gain = _exponent(self.unit), 1.0
        # The claims of the recurrence that x itself did not confirm.
        self.denied = {"CONVERGED": math.inf, "LEAST_SQUARES": math.inf}

    def result(self) -> Tensor:
        """Return x0 and the change in the unit and dtype of the caller."""
        half = self.exponent // 2
        unit = 2.0**half * 2.0 ** (self.exponent - half)  # infinity past the range
        x = self.x if self.x0 is None else (self.x0 / unit).add_(self.x)
        return in_given_precision(self.owner, x, self.dtype, unit, self.A.input, of_y=self.unit)

    def solve(self, method: type[Recurrence], progress: Progress) -> Tensor:
        """Do the steps, and return the solution."""
        pair, damp, self.progress = self.pair, self.options.damp, progress
        values = {"residual": float(pair.beta > 0), "gradient": float(pair.alpha > 0)}
        values |= {"objective": self.objective(pair.beta), "condition": 1.0}
        # x, which is about |A| |y| / (|A|^2 + damp^2), is kept in a unit in which it is near 1.
        ratio = max(0, _exponent(damp) - _exponent(pair.unit)) if damp and pair.alpha else 0
        if ratio > _MOST_DAMPED:
            raise ArithmeticError(
                f"{self.owner}: damp must be less than 2^{_MOST_DAMPED} times the scale of A, got "
                f"{damp:.3g} and {pair.unit:.3g}"
            )
        self.gain = 4.0**ratio
        self.recurrence = method(pair, damp / pair.unit, self.gain)
        self.exponent -= _exponent(pair.unit) + 2 * ratio
        return progress.follow(self, (values, None if pair.alpha else self.reason_at_start()))

    def step(self) -> Measured:
        """Move x by the recurrence."""
        norms, reason = self.judged(self.recurrence.step(self.x))
        # A small residual or a small gradient is enough for a solution.
        is_far = norms.residual > FAR * self.goal(norms)
        self.progress.goals["gradient"] = self.options.atol if is_far else 0.0
        values = {
            "residual": norms.residual / self.norm_of_y,
            "gradient": norms.relative_gradient,
            "objective": self.objective(norms.residual),
            "condition": norms.condition,
        }
        return values, reason

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        vectors = {"y": (self.A.output, self.y), **self.A.sketch(self.x)}
        if self.x0 is not None:
            vectors["x0"] = self.A.input, self.x0
        return {**self.options._asdict(), **vectors}

    def holders(self) -> Mapping[str, object]:
        """Return this object, the bidiagonalisation, and what updates x."""
        return {"problem": self, "pair": self.pair, "recurrence": self.recurrence}

    def reason_at_start(self) -> StopReason:
        """Return the reason to stop if the first residual, or its gradient, is 0."""
        rounding = rounding_of(self.dtype)
        if not self.norm_of_y and self.x0 is None:
            return StopReason.CONVERGED
        if not self.norm_of_y:
            norm_of_y, norm_of_image = self.A.norms_of([], [self.y, self.A.forward(self.x0)])
            is_proved = rounding * norm_of_image <= self.options.btol * norm_of_y
            return StopReason.CONVERGED if is_proved else StopReason.ROUNDING
        is_proved = self.pair.unseen + rounding <= self.options.atol
        return StopReason.LEAST_SQUARES if is_proved else StopReason.ROUNDING

    def objective(self, residual: float) -> float:
        """Return |A x - y|^2 + damp^2 |x - x0|^2; infinity where a float does not hold it."""
        return (residual * self.unit) * (residual * self.unit)

    def goal(self, norms: Norms) -> float:
        """Return the largest |r| allowed."""
        return self.options.btol * self.norm_of_y + self.options.atol * norms.norm * norms.x

    def judged(self, norms: Norms) -> tuple[Norms, StopReason | None]:
        """Return the norms, and the reason to stop by the rules of Paige and Saunders, section 6.

        A claim of the recurrence counts once x itself confirms it. If x does not, the next check is
        when the claim has halved.
        """
        atol, precision = self.options.atol, self.precision
        scale, goal, claim = norms.norm * norms.x + self.norm_of_y, self.goal(norms), None
        # Below the precision, the vectors do not follow the recurrence.
        if norms.residual <= goal and goal >= precision * scale:
            claim, said = StopReason.CONVERGED, norms.residual
        elif norms.relative_gradient <= atol and atol >= precision:
            claim, said = StopReason.LEAST_SQUARES, norms.relative_gradient
        if claim is not None and said <= 0.5 * self.denied[claim.name]:
            measured, rounding = self.measured(norms, claim is StopReason.LEAST_SQUARES)
            if claim is StopReason.CONVERGED:
                is_confirmed = measured.residual + rounding <= self.goal(measured)
            else:
                allowed = atol * measured.norm * (measured.residual - rounding)
                is_confirmed = measured.gradient + self.pair.norm * rounding <= allowed
            if is_confirmed:
                return measured, claim
            self.denied[claim.name] = said
        smallest = min(
            norms.relative_gradient, 1 / max(norms.condition, 1.0), norms.residual / scale
        )
        is_ill_conditioned = 0 < self.options.conlim <= norms.condition
        if not is_ill_conditioned and smallest > precision:
            return norms, None
        measured, _ = self.measured(norms, True)
        self.complain(measured)
        return measured, StopReason.ILL_CONDITIONED if is_ill_conditioned else StopReason.ROUNDING

    def measured(self, norms: Norms, with_gradient: bool) -> tuple[Norms, float]:
        """Return the norms of x itself, and a bound of the rounding of its residual."""
        x = at_least_single(self.result())
        residual = (self.y - self.A.forward(x)) / self.unit
        damping = self.options.damp / self.pair.unit
        vectors = [self.x, x / self.unit]
        if with_gradient:
            gradient = self.A.adjoint(residual) / self.pair.unit
            vectors.append(gradient.sub_(self.x, alpha=damping**2 / self.gain))
        moved, norm_of_x, *slopes, misfit = self.A.norms_of(vectors, [residual])
        moved /= self.gain
        measured = norms._replace(
            residual=math.hypot(misfit, damping * moved),
            x=moved,
            gradient=slopes[0] if with_gradient else norms.gradient,
        )
        rounding = rounding_of(self.dtype) * self.pair.norm * norm_of_x * self.pair.unit
        return measured, rounding

    def complain(self, norms: Norms) -> None:
        """Warn users who do not look at the reason."""
        coarse = math.sqrt(self.precision)
        atol, btol = max(self.options.atol, coarse), max(self.options.btol, coarse)
        goal = btol * self.norm_of_y + atol * norms.norm * norms.x
        gradient = norms.relative_gradient
        if norms.residual > goal and gradient > atol:
            self.progress.warn_once(
                f"{self.owner}: the residual r must fall to btol |y| + atol |A| |x|, or |A^H r| to "
                f"atol |A| |r|, got |r| = {norms.residual / self.norm_of_y:.2g} |y| and |A^H r| = "
                f"{gradient:.2g} |A| |r|, and more steps do not help in {self.dtype}: A is too "
                f"ill-conditioned (about {norms.condition:.2g}); give damp, a wider dtype or a "
                "preconditioned A"
            )


def _exponent(value: float) -> int:
    """Return the exponent of the power of two below a positive number."""
    return math.frexp(value)[1] - 1

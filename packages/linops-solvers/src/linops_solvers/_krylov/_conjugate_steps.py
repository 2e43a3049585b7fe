"""The steps of conjugate gradients.

The numbers of one system are floats, those of many, of autograd and of compilers are tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from linops_core.siblings import host_products_and_norms, is_differentiated

from .._shared._checkpoint import check_not_recorded
from .._shared._checks import Operator, check_scale
from .._shared._precision import at_least_single, in_given_precision, in_own_space, to_half
from .._shared._products import is_moderate, scaled_sum
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason
from .._shared._space import Space
from ._convergence_check import (
    N_CHECKED,
    ConvergenceCheck,
    Mask,
    Products,
    Scalars,
    StepNumbers,
    is_any,
    largest_number,
    on_host,
    safe_ratio,
)

_NAME = "conjugate_gradients"


class ConjugateSteps(SolverSteps):
    """One solve. If ``is_read`` is False no value of a tensor is read, so a compiler can trace."""

    x: Tensor
    residual: Tensor
    direction: Tensor
    unit: Scalars
    unit_of_A: Scalars | None = None
    """The unit of A, if its own unit would exceed the range of the dtype."""
    iteration = 0
    is_anew = True
    """Whether the residual was computed anew; then it is the next direction."""
    energy: Scalars = 0.0
    """Re r^H z."""
    factor: Scalars = 0.0
    """Factor of the direction in the next direction."""
    norm_of_A: Scalars = 0.0
    image: Tensor | None = None
    """A times the next direction, or None. If it is given, ``direction`` is the next direction."""
    _searched: Tensor | None = None
    """The residual, preconditioned."""

    def __init__(
        self,
        A: Operator,
        preconditioner: Operator | None,
        space: Space,
        y: Tensor,
        x0: Tensor | None,
        tolerances: tuple[float, float] = (0.0, 0.0),
        dtype: torch.dtype | None = None,
        *,
        is_read: bool = True,
    ) -> None:
        self.A, self.space, self._y = in_own_space(_NAME, A, y.dtype), space, y
        self.preconditioner: Operator | None = None
        if preconditioner is not None:
            given = _NAME, preconditioner, y.dtype, "the preconditioner"
            self.preconditioner = in_own_space(*given)
        self.is_guessed, self.is_read = x0 is not None, is_read
        y = at_least_single(y)
        residual = y if x0 is None else y - self.A(at_least_single(x0))
        unit = self.unit_of(*([residual] if x0 is None else [y, residual]))
        residual = residual / unit
        x = torch.zeros_like(residual) if x0 is None else at_least_single(x0) / unit
        self.x, self.residual, self.unit = x, residual, unit
        norm_of_residual = norm_of_y = space.norm(residual)
        loss = 0.0 * norm_of_residual
        if x0 is not None:
            scaled = y / unit
            norm_of_y = space.norm(scaled)
            # x^H A x / 2 - Re x^H y, where A x is y less the residual.
            loss = -(space.inner(x, scaled).real + space.inner(x, residual).real) / 2
        if space.systems or not is_read:
            self.norm_of_A = torch.zeros_like(norm_of_residual)
        numbers: list[Any] = [norm_of_y, loss, norm_of_residual, 0.0 * norm_of_residual]
        if is_read:
            numbers = on_host(*numbers)
            if self.is_guessed and is_any(numbers[2] <= tolerances[0] * numbers[0]):
                numbers[3] = self.largest_image()
        options = dtype or self._y.dtype, preconditioner is not None, is_read
        self.check = ConvergenceCheck(numbers, tolerances, *options)

    def unit_of(self, *vectors: Tensor) -> Scalars:
        """Return a power of two for each system, below the largest entry; 1 for zeros."""
        if self.is_read and not self.space.systems:
            return self.space.unit_of(_NAME, *vectors)
        return self.space.unit(*vectors)

    @torch.no_grad()
    def largest_image(self) -> Scalars:
        """Return an estimate of |A| |x| for the first guess, because terms of A x may cancel."""
        x, norm = self.x, self.space.norm
        first = self.forward(self.space.random_like(x.detach()))
        first = first / self.space.unit(first)
        estimate = norm(self.forward(first)) / norm(first) * norm(x)
        (number,) = on_host(estimate.nan_to_num(0.0))
        return number  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """Return A x, in the unit of A."""
        image, unit = self.A(x), self.unit_of_A
        return image if unit is None else image / unit

    def preconditioned(self) -> Tensor:
        """Return the residual, preconditioned."""
        residual = self.residual
        return residual if self.preconditioner is None else self.preconditioner(residual)

    def solve(self, progress: Progress) -> Tensor:
        """Return the solution, in the unit of y."""
        self.progress = progress
        return progress.follow(self, (self.values(), self.check.reasons))

    def holders(self) -> Mapping[str, object]:
        """Return this object and what is known of all systems."""
        return {"state": self, "check": self.check}

    def restored(self, reasons: Sequence[StopReason | None]) -> None:
        """Take the reasons of a checkpoint, and compute what it does not have."""
        self.check.restore([*reasons])
        if not self.is_anew:
            self._searched = self.preconditioned()

    def step(self) -> Measured:
        """Do a step; compute the residual anew where a system may be solved by it."""
        check, progress = self.check, self.progress
        if self.is_anew:
            self.begin()
        self.advance()
        is_last = self.iteration == progress.limit
        if is_last:  # has_to_verify asks for residuals that are uncertain only where none go on
            check.stop(check.active, StopReason.MAX_ITERATIONS)
        self.is_anew = check.has_to_verify
        if self.is_anew:
            self.verify()
        if is_last:
            check.stop(check.active, StopReason.MAX_ITERATIONS)
            if progress.goals and (complaint := check.complaint()):
                # Now, because the loop would only say that more steps are needed.
                progress.warn_once(complaint)
        return self.values(), check.reasons

    def after_fixed_steps(self, count: int) -> Tensor:
        """Return x after that number of steps, without reading; NaN where reading would raise.

        A system stays as it is once its residual or curvature is lost in rounding.
        """
        self.begin()
        for _ in range(count):
            self.advance()
        refused = cast(Tensor, self.check.refused)
        x = torch.where(refused, torch.nan, self.x * self.unit_of_x())
        return to_half(x, self._y.dtype)

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        y, space, check = self._y, self.space, self.check
        vectors = {"y": y, "x0": self.x} if self.is_guessed else {"y": y}
        for name, operator in (("A", self.A), ("the preconditioner", self.preconditioner)):
            if operator is not None:
                vectors[name] = operator(space.random_like(at_least_single(y.detach())))
        check_not_recorded(_NAME, *vectors.values(), advice="pass implicit=True, or call it")
        options = {"gtol": check.gtol, "ltol": check.ltol, "axes of systems": [*space.systems]}
        return {**options, **{name: (space, vector) for name, vector in vectors.items()}}

    def begin(self) -> None:
        """Make the first direction z, and A times it."""
        self._searched = searched = self.preconditioned()
        numbers = self.numbers([(self.residual, searched)], [searched])
        self.check.begin(*(on_host(*numbers) if self.is_read else numbers))
        self.energy = numbers[0].real
        self.direction, self.factor = searched.clone(), 0.0
        image = self.forward(self.direction)
        self.image = image if self.iteration else self.in_chosen_unit(image)
        self.is_anew = False

    def advance(self) -> None:
        """Do a step, and check its numbers; the next direction is made by the next step."""
        check, space = self.check, self.space
        p, q, z = self.direction, self.image, self._searched
        assert z is not None
        if q is None:
            p = self.direction = scaled_sum(z, self.factor, p, p)
            q = self.forward(p)
        # If several processes have parts of the vectors, a step has one reduction.
        is_at_once = space.totals.add is not None and self.preconditioner is None
        pairs = [(p, q), (z, q)][: 1 + (self.iteration < N_CHECKED or is_at_once)]
        curvature, *others = self.numbers(pairs, [p, q, self.residual][: 2 + is_at_once])
        cross: Any = others.pop(0) if len(pairs) > 1 else None
        norm_of_p, norm_of_q = others[:2]
        if is_at_once:
            self.energy = others[2] ** 2
        norm_of_A, before = largest_ratio(self.norm_of_A, norm_of_q, norm_of_p), self.energy
        floor = check.noise * norm_of_A * norm_of_p * norm_of_p
        step = self.ratio(before, curvature, curvature.real > floor)
        self.x = scaled_sum(self.x, step, p, self.x)
        self.residual = scaled_sum(self.residual, -step, q, self.residual)
        self.image = self._searched = None
        del pairs, q, z  # or these names would keep them beside what the preconditioner makes
        self._searched = self.preconditioned()
        energies = self.next_energy(step, cross.real, norm_of_q) if is_at_once else None
        if energies is None:  # without a preconditioner r^H z is |r|^2, so one number is measured
            z = self._searched
            vectors = (self.residual, z) if self.preconditioner or not self.is_read else ()
            energy, *norms = self.numbers([(self.residual, z)], vectors)
            energies = [energy, *(norms or [energy.real**0.5] * 2)]
            del z
        energy, residual, searched = energies
        cross = cross if self.iteration < N_CHECKED else None
        norms = [norm_of_p, norm_of_q, norm_of_A, residual, searched]
        numbers = [curvature, energy, step, *norms, cross]
        check.step(StepNumbers(*(on_host(*numbers) if self.is_read else numbers)))
        self.factor = self.ratio(energy, before, before > 0)
        self.energy, self.norm_of_A = energy.real, norm_of_A
        self.iteration += 1

    def numbers(
        self, pairs: Sequence[tuple[Tensor, Tensor]], vectors: Sequence[Tensor]
    ) -> list[Any]:
        """Return inner products and norms: floats of one system, unless autograd follows."""
        space = self.space
        if not self.is_read or space.systems or is_differentiated(*pairs[0]):
            return space.measured(pairs, vectors)
        if not space.is_whole:
            return on_host(*space.measured(pairs, vectors))
        products, norms = host_products_and_norms(pairs, vectors)
        if not space.has_complex_products:
            products = [product.real for product in products]
        return [*products, *norms]

    def next_energy(self, step: Scalars, cross: float, norm_of_q: float) -> list[Any] | None:
        """Return |r - s q|^2 by Meurant, from |r|^2, Re r^H q and |q|^2, and a bound of its root.

        None if the terms cancel, because too few digits would be left. The next step measures
        |r|^2 again, so errors do not accumulate.
        """
        terms = self.energy + (step * norm_of_q) ** 2
        energy = terms - 2 * step * cross
        if not energy > 0.01 * terms:
            return None
        bound = math.sqrt(energy + 4 * torch.finfo(self.residual.dtype).eps * terms)
        return [energy, bound, bound]

    def unit_of_x(self) -> Scalars:
        """Return the unit of x."""
        unit, unit_of_A = self.unit, self.unit_of_A
        return unit if unit_of_A is None else unit / unit_of_A

    def result(self) -> Tensor:
        """Return a new x in the unit of y."""
        dtype, unit = self._y.dtype, self.unit_of_x()
        return in_given_precision(_NAME, self.x, dtype, unit, self.space, of_y=self.unit)

    def in_chosen_unit(self, image: Tensor) -> Tensor:
        """Choose the unit of A by its output for a vector near 1; return the scaled output."""
        unit: Scalars | None = self.unit_of(image)
        if self.is_read:
            (numbers,) = on_host(unit)
            check_scale(_NAME, numbers, self._y.dtype)
            if is_moderate(numbers):
                unit = None
            else:
                self.check.loss = self.check.loss * numbers
        if unit is not None:
            self.unit_of_A, self.x, image = unit, self.x * unit, image / unit
        if self.is_read and self.is_guessed:
            (self.check.norm_of_x,) = on_host(self.space.norm(self.x))
        return image

    def norm(self) -> float:
        """Return the largest |A p| / |p| of the steps of all systems; 0 if there were none."""
        (unit,) = on_host(1.0 if self.unit_of_A is None else self.unit_of_A)
        return largest_number(self.check.norm * unit) if self.check.n_steps else 0.0

    def ratio(self, numerator: Products, denominator: Products, is_valid: Mask) -> Scalars:
        """Return the ratio of two real numbers of each system; 0 where it is masked."""
        over, under = numerator.real, denominator.real
        if not isinstance(is_valid, Tensor):
            return over / under if is_valid else 0.0
        if isinstance(active := self.check.active, Tensor):
            is_valid = is_valid & active.reshape(is_valid.shape).to(is_valid.device)
        return torch.where(is_valid, over / torch.where(is_valid, under, 1), 0)

    def verify(self) -> None:
        """Compute the residual of the x that would be returned, without the recurrence."""
        # Both, because without a preconditioner they are one tensor, which would take memory.
        del self.residual, self._searched
        x = at_least_single(to_half(self.x, self._y.dtype))
        image, residual = self.forward(x), at_least_single(self._y) / self.unit
        self.residual = scaled_sum(residual, -1, image, residual)
        self.check.verify(*on_host(self.space.norm(self.residual), self.space.norm(x)))

    def values(self) -> dict[str, float]:
        """Return the values with a tolerance, after the last step."""
        return {} if None in self.check.reasons else self.goals_reached()

    def goals_reached(self) -> dict[str, float]:
        """Return the values with a tolerance."""
        check = self.check
        values = {"residual": largest_number(safe_ratio(check.residual, check.norm_of_y))}
        if "decrease" in self.progress.goals:
            values["decrease"] = largest_number(check.drop)
        return values

    def shown(self) -> dict[str, float]:
        """Return the residual and the objective."""
        unit, unit_of_x = on_host(self.unit, self.unit_of_x())
        losses = self.check.loss * unit_of_x * unit
        objective = float(losses.sum() if isinstance(losses, Tensor) else losses)
        return {**self.goals_reached(), "objective": objective}


def largest_ratio(largest: Scalars, numerator: Scalars, denominator: Scalars) -> Scalars:
    """Return the larger of a number and a ratio; 0 / 0 is ignored."""
    if isinstance(numerator, Tensor):
        return torch.fmax(
            numerator / denominator, torch.as_tensor(largest, device=numerator.device)
        ).detach()
    return max(largest, numerator / denominator) if denominator else largest

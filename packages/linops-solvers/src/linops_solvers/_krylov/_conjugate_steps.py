"""The steps of conjugate gradients.

There are two loops. One system on a CPU is solved by numbers of Python, in place. Many systems,
autograd, compilers, processes, preconditioners and other devices take the general step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import call_again, has_checked, inner, is_followed, squared_norm

from .._shared._checkpoint import Checkpoint, check_not_recorded
from .._shared._checks import Operator, check_like, check_scale, in_own_space
from .._shared._precision import in_given_precision, narrowed, widened
from .._shared._products import add_scaled, copied, divided, is_moderate
from .._shared._progress import Iterate, Progress, StopReason
from .._shared._space import Space
from ._convergence_check import ConvergenceCheck, is_any
from ._definiteness import (
    N_CHECKED,
    Definiteness,
    Measured,
    Numbers,
    on_host,
    reals_on_host,
)

_NAME = "conjugate_gradients"


@dataclass
class State:
    """The values that a step needs from the one before, in units in which y is near 1."""

    x: Tensor
    residual: Tensor
    direction: Tensor
    unit: Numbers
    unit_of_A: Numbers = None
    """The unit of A, if its own unit would exceed the range of the dtype."""
    iteration: int = 0
    is_anew: bool = True
    """Whether the residual was computed anew; then it is the next direction."""
    energy: Numbers = 0.0
    """Re r^H z."""
    factor: Numbers = 0.0
    """Factor of the direction in the next direction."""
    norm_of_A: Numbers = 0.0
    length: Numbers = 0.0
    """Norm of the direction."""
    image: Tensor | None = None
    """A times the next direction, or None. If it is given, ``direction`` is the next direction."""


class Run:
    """One run. Without tolerances no value of a tensor is read, so that a compiler can trace it."""

    def __init__(
        self,
        A: Operator,
        preconditioner: Operator | None,
        batch: Space,
        y: Tensor,
        x0: Tensor | None,
        tolerances: tuple[float, float] | None = None,
        dtype: torch.dtype | None = None,
        first_system: int | None = None,
    ) -> None:
        self.A, self.preconditioner, self.batch, self.y = A, preconditioner, batch, y
        self.A_again, self.is_guessed, self.is_read = A, x0 is not None, tolerances is not None
        self.searched: Any = None  # the residual, preconditioned
        self.active: Numbers = True  # which systems go on, if no value is read
        y = widened(y)
        image = None if x0 is None else self.applied(A, x0)
        residual = y if image is None else y - image
        unit = self.unit_of(*([residual] if image is None else [y, residual]))
        residual = divided(residual, unit, None if image is None else residual)
        x = torch.zeros_like(residual) if x0 is None else widened(x0) / unit
        self.state = state = State(x, residual, torch.empty_like(residual), unit)
        norm = self.size = batch.norm(residual)
        loss = image_size = 0.0 * norm
        if image is not None:
            scaled = divided(y, unit, state.direction)
            self.size, product = batch.norm(scaled), batch.inner(x, scaled).real
            scaled = divided(image, unit, state.direction)
            loss = batch.inner(x, scaled).real / 2 - product
            image_size = batch.norm(scaled)
        if batch.systems or tolerances is None:
            state.norm_of_A = torch.zeros_like(norm)
        self.definite = Definiteness(dtype or self.y.dtype)
        if tolerances is None:
            return
        size, loss, norm, image_size = reals_on_host(self.size, loss, norm, image_size)
        # One whole vector on a CPU, not in half precision: see plain_steps.
        is_whole = not batch.systems and batch.totals.add is None and batch.has_complex_products
        self.is_plain = is_whole and y.is_cpu and y is self.y and preconditioner is None
        if self.is_guessed and is_any(norm <= tolerances[0] * size):
            image_size = self.largest_image()
        numbers = size, loss, norm, image_size, tolerances
        self.check = ConvergenceCheck(*numbers, self.definite, preconditioner, first_system)

    def unit_of(self, *vectors: Tensor) -> Numbers:
        """Return a power of two for each system, below the largest entry; 1 for zeros."""
        is_one = self.is_read and not self.batch.systems
        return self.batch.unit_of(_NAME, *vectors) if is_one else self.batch.unit(*vectors)

    @torch.no_grad()
    def largest_image(self) -> Numbers:
        """Return an estimate of |A| |x| for the first guess, because terms of A x may cancel."""
        x = self.state.x
        first = self.forward(self.batch.random_like(x.detach()))
        first = first / self.batch.unit(first)
        second = self.batch.norm(self.forward(first)) / self.batch.norm(first)
        return reals_on_host((second * self.batch.norm(x)).nan_to_num(0.0))[0]

    def applied(self, operator: Operator, x: Tensor, name: str = "A") -> Tensor:
        """Return an operator applied to x in the dtype of y, widened again."""
        return widened(in_own_space(_NAME, operator, narrowed(x, self.y.dtype), name))

    def forward(self, x: Tensor) -> Tensor:
        """Return A x, in the unit of A."""
        image, unit = self.applied(self.A, x), self.state.unit_of_A
        return image if unit is None else image / unit

    def solve(self, progress: Progress) -> Tensor:
        """Return the solution, in the unit of y."""
        if progress.checkpoint is not None:
            self.resume(progress.checkpoint, progress.limit)
        return progress.follow(self.steps(progress), Run.result).result()

    def resume(self, checkpoint: Checkpoint, limit: int) -> None:
        """Continue from the newest state of a checkpoint, if there is one."""
        y, check, batch = self.y, self.check, self.batch
        vectors = {"y": y, "x0": self.state.x} if self.is_guessed else {"y": y}
        for name, operator in (("A", self.A), ("the preconditioner", self.preconditioner)):
            if operator is not None:
                probe = batch.random_like(y.detach())
                vectors[name] = in_own_space(_NAME, operator, probe, name)
        advice = "pass implicit=True, or call it"
        check_not_recorded(_NAME, *vectors.values(), advice=advice)
        options = {"gtol": check.gtol, "ltol": check.ltol, "max_num_iters": int(limit)}
        parts = {"state": self.state, "check": check, "definite": self.definite}
        spaces = {name: (batch, vector) for name, vector in vectors.items()}
        checkpoint.begin(options | {"axes of systems": [*batch.systems]}, spaces, **parts)
        if checkpoint.step is not None:
            names = checkpoint.step["reasons"]
            check.restore([None if name is None else StopReason[name] for name in names])

    def steps(self, progress: Progress) -> Iterator[Iterate[Run]]:
        """Do the steps; at the limit of ``progress``, uncertain residuals are computed anew."""
        check, state, limit = self.check, self.state, progress.limit
        is_shown = progress.is_watched or progress.checkpoint is not None
        yield self, self.values(progress, is_shown), check.reasons
        if not state.is_anew:
            self.searched = self.preconditioned()
        while True:
            if state.is_anew:
                self.begin()
            measured = self.plain_steps(0 if is_shown else limit)
            if measured is None:
                measured = self.step(check.n_steps < N_CHECKED)
            check.step(measured.on_host())
            if state.iteration + 1 == limit:
                check.stop(check.active, StopReason.MAX_ITERATIONS)
            self.advance(measured)
            del measured
            state.is_anew = check.has_to_verify
            if state.is_anew:
                self.verify()
            if state.iteration == limit and progress.goals and (complaint := check.complaint()):
                progress.warn_once(complaint)  # it says more than that more steps are needed
            yield self, self.values(progress, is_shown), check.reasons

    def begin(self) -> list[Numbers]:
        """Make the first direction z, and A times it; return r^H z and |z|."""
        state, A = self.state, self.A
        self.searched = searched = self.preconditioned()
        energy, length = self.batch.inner(state.residual, searched), self.batch.norm(searched)
        if self.is_read:
            first, size = on_host(energy, length)
            self.check.begin(first, size.real)
        (state.energy,) = self.scalars(energy.real)
        state.direction, state.factor = copied(searched, state.direction), 0.0
        image = self.forward(state.direction)
        if isinstance(A, NamedLinop):  # it has checked its input and output
            self.A_again = (
                partial(A.fn, A) if has_checked(A, state.direction) else partial(call_again, A)
            )
        state.image = image if state.iteration else self.in_chosen_unit(image)
        state.is_anew = False
        return [energy, length]

    def step(self, is_checked: bool) -> Measured:
        """Do a step; the next direction is made by :meth:`advance` and the next step."""
        state, batch, searched = self.state, self.batch, self.searched
        image, direction = state.image, state.direction
        if image is None:
            direction = add_scaled(searched, state.factor, direction, into=direction)
            state.direction, image = direction, self.forward(direction)
        # If several processes have parts of the vectors, a step has one reduction.
        is_at_once = batch.totals.add is not None and self.preconditioner is None
        pairs = [(direction, image), (searched, image)][: 1 + (is_checked or is_at_once)]
        lengths = [direction, image] + ([state.residual] if is_at_once else [])
        curvature, *numbers = self.scalars(*batch.measured(pairs, lengths))
        cross: Numbers = numbers.pop(0) if len(pairs) > 1 else None
        length, image_length, *known = numbers
        if known:
            state.energy = known[0] ** 2
        state.norm_of_A = largest_ratio(state.norm_of_A, image_length, length)
        floor = self.definite.floor(state.norm_of_A, length)
        step = self.ratio(state.energy, curvature, curvature.real > floor)
        state.x = add_scaled(state.x, step, direction)
        state.residual = add_scaled(state.residual, -step, image)
        state.image = self.searched = None
        del image, pairs, lengths, searched  # freed before the next ones are made
        self.searched = self.preconditioned()
        found = self.foreseen(state.energy, step, cross.real, image_length) if known else None
        if found is None:
            vectors = (state.residual, self.searched)
            sizes = vectors if self.preconditioner or not self.is_read else ()
            energy, *norms = self.scalars(*batch.measured([vectors], sizes))
            found = [energy, *(norms or [energy.real**0.5] * 2)]
        cross, norm = cross if is_checked else None, state.norm_of_A
        return Measured(
            curvature, found[0], step, length, image_length, norm, found[1], found[2], cross
        )

    def advance(self, measured: Measured) -> None:
        """Note the numbers of a step that is checked."""
        state = self.state
        state.factor = self.ratio(measured.energy, state.energy, state.energy.real > 0)
        state.energy, state.norm_of_A = measured.energy.real, measured.norm
        state.length, state.iteration = measured.direction, state.iteration + 1

    def plain_steps(self, limit: int) -> Measured | None:
        """Do steps of one whole vector, up to the first one to which a rule of checks may apply.

        A step takes two inner products; norms follow from the last step. The residual r is
        orthogonal to the last direction p', so |p|^2 = |r|^2 + (factor |p'|)^2. As r^H A p is
        p^H A p, the next residual r' has |A p|^2 = (|r|^2 + |r'|^2) / step^2. The first steps
        measure r^H A p and |A p|^2 instead, for the checks.

        Return the numbers of the last step, which are to be checked. None if that step was not
        done: the curvature is not surely positive, or autograd follows. The general step goes on
        then.
        """
        state, check, noise = self.state, self.check, self.definite.noise
        x, r, p = state.x, state.residual, state.direction
        if not self.is_plain or state.unit_of_A is not None or is_followed(r, p):
            return None
        while True:
            image, state.image, energy = state.image, None, state.energy
            if image is None:
                image = self.A_again(torch.add(r, p, alpha=state.factor, out=p))
                check_like(_NAME, "the output of A", image, "y", p)
            squared = energy + (state.factor * state.length) ** 2
            curvature, cross = inner(p, image).item(), None
            if image.requires_grad or not curvature.real > noise * state.norm_of_A * squared:
                state.image = image
                return None
            step, length = energy / curvature.real, math.sqrt(squared)
            if check.n_steps < N_CHECKED:
                cross = inner(r, image).item()
                of_image = math.sqrt(squared_norm(image).item())
            x.add_(p, alpha=step)
            r.add_(image, alpha=-step)
            image = None  # freed before the next one is made
            found = squared_norm(r).item()
            if cross is None:
                of_image = math.sqrt(energy + found) / step
            norm, size = max(state.norm_of_A, of_image / length), math.sqrt(found)
            measured = Measured(curvature, found, step, length, of_image, norm, size, size, cross)
            if state.iteration + 1 >= limit or not check.passes(measured):
                return measured
            state.factor, state.energy, state.norm_of_A = found / energy, found, norm
            state.length, state.iteration = length, state.iteration + 1

    def foreseen(
        self, energy: float, step: float, cross: float, image_length: float
    ) -> list[Numbers] | None:
        """Return |r - s q|^2 from |r|^2, Re r^H q and |q|^2, and twice a bound of its root.

        None if the terms cancel, because too few digits would be left. The next step measures
        |r|^2 again, so errors do not accumulate.
        """
        added = energy + (step * image_length) ** 2
        found = added - 2 * step * cross
        if not found > 0.01 * added:
            return None
        bound = math.sqrt(found + 4 * torch.finfo(self.state.residual.dtype).eps * added)
        return [found, bound, bound]

    def own_unit(self) -> Numbers:
        """Return the unit of x."""
        unit, unit_of_A = self.state.unit, self.state.unit_of_A
        return unit if unit_of_A is None else unit / unit_of_A

    def result(self) -> Tensor:
        """Return a new x in the unit of y."""
        x, is_extreme = self.state.x * self.own_unit(), self.state.unit_of_A is not None
        return in_given_precision(_NAME, x, self.y.dtype, may_be_extreme=is_extreme)

    def check_underflow(self, x: Tensor) -> None:
        """Raise an error if the result lost digits because the dtype cannot hold small numbers."""
        exact, norm = self.state.x.detach(), self.batch.norm
        if self.state.unit_of_A is None and x.dtype == exact.dtype:
            return
        lost = norm(widened(x.detach()) / self.own_unit() - exact)
        if not bool((lost <= torch.finfo(x.dtype).eps * norm(exact)).all()):
            raise ArithmeticError(
                f"{_NAME}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got numbers too small for it"
            )

    def in_chosen_unit(self, image: Tensor) -> Tensor:
        """Choose the unit of A by its output for a vector near 1; return the scaled output."""
        state, unit = self.state, self.unit_of(image)
        numbers: Numbers = 1.0
        if self.is_read:
            (numbers,) = reals_on_host(unit)
            check_scale(_NAME, numbers, self.y.dtype)
        if not self.is_read or not is_moderate(numbers):
            state.unit_of_A, state.x, image = unit, state.x * unit, image / unit
        if self.is_read and state.unit_of_A is not None:
            self.check.loss = self.check.loss * numbers
        if self.is_read and self.is_guessed:
            (self.check.length,) = reals_on_host(self.batch.norm(state.x))
        return image

    def norm(self) -> float:
        """Return the largest |A p| / |p| of the steps of a single system; 0 if there were none."""
        unit = 1.0 if self.state.unit_of_A is None else float(self.state.unit_of_A)
        return float(self.check.norm) * unit if self.check.n_steps else 0.0

    def preconditioned(self) -> Tensor:
        """Return the residual, preconditioned."""
        residual = self.state.residual
        if self.preconditioner is None:
            return residual
        return self.applied(self.preconditioner, residual, "the preconditioner")

    def scalars(self, *found: Tensor) -> list[Numbers]:
        """Return numbers for the next vectors; for one system, on the host, which is fastest.

        They stay tensors for several systems, if autograd follows, and if none is read.
        """
        is_kept = not self.is_read or self.batch.systems or is_followed(*found)
        return [*found] if is_kept else on_host(*found)

    def ratio(self, over: Numbers, under: Numbers, is_valid: Numbers) -> Numbers:
        """Return the ratio of two real numbers of each system; 0 where it is masked."""
        if not isinstance(is_valid, Tensor):
            return over.real / under.real if is_valid else 0.0
        active = self.check.active if self.is_read else self.active
        if isinstance(active, Tensor):
            is_valid = is_valid & active.reshape(over.shape).to(over.device)
        return torch.where(is_valid, over.real / torch.where(is_valid, under.real, 1), 0)

    def verify(self) -> None:
        """Compute the residual of the x that would be returned, without the recurrence."""
        state = self.state
        self.searched = None  # freed, because it keeps the memory of the residual
        x = widened(narrowed(state.x, self.y.dtype))
        image, y = self.forward(x), widened(self.y)
        if is_followed(y, image):
            state.residual = y / state.unit - image
        else:
            state.residual = torch.div(y, state.unit, out=state.residual).sub_(image)
        self.check.verify(*reals_on_host(self.batch.norm(state.residual), self.batch.norm(x)))

    def values(self, progress: Progress, is_shown: bool) -> dict[str, float]:
        """Return the values of a step that is watched, or the residual after the last step."""
        rest = {"decrease": self.check.decrease} if "decrease" in progress.goals else {}
        if not is_shown:
            return {} if None in self.check.reasons else {"residual": self.check.relative} | rest
        unit, own_unit = reals_on_host(self.state.unit, self.own_unit())
        losses = self.check.loss * own_unit * unit
        loss = losses.sum().item() if isinstance(losses, Tensor) else losses
        return {"residual": self.check.relative, "objective": float(loss)} | rest


def largest_ratio(largest: Numbers, over: Numbers, under: Numbers) -> Numbers:
    """Return the larger of a number and a ratio; 0 / 0 is ignored."""
    if isinstance(over, Tensor):
        return torch.fmax(over / under, torch.as_tensor(largest, device=over.device)).detach()
    return max(largest, over / under) if under else largest

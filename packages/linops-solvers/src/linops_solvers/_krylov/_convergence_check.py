"""The checks of conjugate gradients: is A Hermitian positive definite, and is a system solved?

Numbers are floats for one system, tensors on the host for several, and tensors of which no value is
read for a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import host_numbers

from .._shared._precision import rounding_of
from .._shared._reports import StopReason

_NAME = "conjugate_gradients"
_REMEDY = "; minres solves indefinite Hermitian systems, gmres all square ones, lsqr least squares"
Scalars: TypeAlias = float | Tensor
"""A real number of each system: a float of one system, else a tensor."""
Products: TypeAlias = complex | Tensor
"""Inner products, real or complex."""
Mask: TypeAlias = bool | Tensor
N_CHECKED = 3
"""Number of first steps in which directions must be conjugate; later rounding spoils it."""


class StepNumbers(NamedTuple):
    """Numbers of a step along p, with r the residual behind it and z the same preconditioned."""

    curvature: Products  # p^H A p
    energy: Products  # r^H z
    step: Scalars  # s of the step s p; 0 if the curvature is lost in rounding
    direction: Scalars  # |p|
    image: Scalars  # |A p|
    norm: Scalars  # largest |A p| / |p| so far
    residual: Scalars  # |r|
    searched: Scalars  # |z|
    cross: Products | None = None  # z'^H A p for the z' before the step; None in later steps


class ConvergenceCheck:
    """What is known of all systems, in units in which each right-hand side is near 1.

    A system converges when its residual plus a bound of its rounding is below the tolerance, and
    the loss no longer decreases. If only the residual of the recurrence is below the tolerance, the
    system waits until the residual is computed anew. Without reading (``is_read``), a system ends
    only where its residual is lost in rounding.
    """

    def __init__(
        self,
        numbers: Sequence[Scalars],  # |y|; f, |A x - y| and |A| |x| of the first guess x
        tolerances: tuple[float, float],
        dtype: torch.dtype,  # of the output of A
        has_preconditioner: bool,
        is_read: bool = True,
    ) -> None:
        self.dtype, self.has_preconditioner, self.is_read = dtype, has_preconditioner, is_read
        norm_of_y, loss, residual, image = numbers
        self.gtol, self.ltol = tolerances
        self.precision = precision = torch.finfo(dtype).eps
        self.root, self.rounding = precision**0.5, rounding_of(dtype)
        # Rounding of p^H A p relative to |A| |p|^2: sums, and half precision.
        sums = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        self.noise = max(64 * sums, 4 * precision)
        # Rounding of p'^H A p times the factor of p' in p, for two directions.
        self.unconjugate: Scalars = 0.0
        self._reasons: list[StopReason | None] = [None] * len(_list(norm_of_y)) if is_read else []
        self.active: Mask = (norm_of_y >= 0) | (norm_of_y != norm_of_y)
        self.waiting: Mask = norm_of_y < 0
        self.refused: Mask = norm_of_y < 0  # where an error is not raised because no value is read
        self._check_finite(norm_of_y, loss, residual, image)
        # For a right-hand side of zero the tolerance is relative to this.
        norm_of_y = norm_of_y + residual * (norm_of_y == 0)
        self.norm_of_y, self.loss, self.residual = norm_of_y, loss, residual
        # Bounds of |A| and |x|. The steps show |A|; until then the second bound includes it.
        self.norm: Scalars = 1.0
        self.norm_of_x = image
        self.drop: Scalars = 0.0  # of the loss in the last step, relative to it
        self.age = 0  # number of steps since the residual was computed
        self.verified = math.inf + 0.0 * norm_of_y
        self.goal = self._reachable(self.rounding * norm_of_y, precision * norm_of_y)
        self.energy = self.searched = residual
        self.n_steps = 0
        self.stop(self._is_proved(), StopReason.CONVERGED)
        self.stop(residual <= precision * norm_of_y, StopReason.ROUNDING)

    @property
    def reasons(self) -> list[StopReason | None]:
        """Why to stop, of each system; a checkpoint has them with the step."""
        return self._reasons

    def restore(self, reasons: list[StopReason | None]) -> None:
        """Take the reasons of a checkpoint, whose numbers were loaded; move these to the host."""
        self._reasons = reasons
        vars(self).update({k: v.cpu() for k, v in vars(self).items() if isinstance(v, Tensor)})

    def stop(self, which: Mask, reason: StopReason) -> None:
        """Note the reason of those systems that are still active."""
        if which is False or (self.is_read and not is_any(which)):
            return
        which = which & self.active
        self.active = self.active ^ which
        if self.is_read:
            pairs = zip(_list(which), self._reasons, strict=True)
            self._reasons = [reason if stopped else before for stopped, before in pairs]

    def begin(self, energy: Products, searched: Scalars) -> None:
        """Note the first r^H z and |z|."""
        self._check_finite(energy, searched)
        self._check_energy(energy, searched)
        self.energy, self.searched = energy.real, searched

    def step(self, measured: StepNumbers) -> None:
        """Check A and the preconditioner by the numbers of a step, and stop solved systems."""
        step, before = measured.step, self.energy
        decrease = 0.5 * step * before
        self.n_steps, self.age = self.n_steps + 1, self.age + 1
        self.norm, self.residual = measured.norm, measured.residual
        self.norm_of_x = self.norm_of_x + step * measured.direction
        self.loss = self.loss - decrease
        self._check_finite(*measured[:5], *measured[6:-1], self.norm_of_x)
        self._check_curvature(measured)
        self.stop(step == 0, StopReason.ROUNDING)
        # A residual that is lost in rounding does not decrease the loss.
        is_lost = self.residual <= self.precision * self.norm_of_y
        is_still = (decrease <= self.ltol * magnitude_of(self.loss)) | is_lost | (self.ltol == 0)
        if not self.is_read:
            self.stop(is_lost, StopReason.ROUNDING)
        elif self.gtol or not self.ltol:
            self.stop(self._is_proved() & is_still, StopReason.CONVERGED)
            waits = self.active & (self.residual <= self.goal) & is_still
            self.waiting, self.active = self.waiting | waits, self.active ^ waits
        else:
            self.stop(is_still, StopReason.STALLED)
        if not self.is_read or is_any(self.active):
            self._check_energy(measured.energy, measured.searched)
        self.drop = safe_ratio(decrease, magnitude_of(self.loss))
        if self.n_steps <= N_CHECKED:
            self._note_rounding(measured)
        self.energy, self.searched = measured.energy.real, measured.searched

    @property
    def has_to_verify(self) -> bool:
        """Whether the residuals must be computed anew before any system can go on."""
        if is_any(self.active):
            return False
        is_unsure = _list(self._drift() > 0.5 * self.residual)
        return is_any(self.waiting) or any(
            unsure and reason is not StopReason.CONVERGED
            for unsure, reason in zip(is_unsure, self._reasons, strict=True)
        )

    def verify(self, residual: Scalars, norm_of_x: Scalars) -> None:
        """Take the residuals computed anew and |x|; systems above the tolerance go on."""
        self._check_finite(residual, norm_of_x)
        self.residual, self.norm_of_x, self.age = residual, norm_of_x, 0
        self.active, self.waiting = self.waiting, self.waiting & False
        self.stop(self._is_proved(), StopReason.CONVERGED)
        self.goal = self._reachable(self._drift(), self._drift())
        is_best = (residual <= self.goal) | (residual > 0.9 * self.verified)
        self.stop(is_best, StopReason.ROUNDING)
        self.verified = residual
        self.unconjugate = 0.0

    def complaint(self) -> str | None:
        """Return the warning if a residual misses its tolerance by far, else None."""
        tolerance = self.gtol if self.gtol >= 64 * self.precision else max(self.gtol, self.root)
        growth = safe_ratio(self.norm * self.norm_of_x, self.norm_of_y)
        systems = zip(
            self._reasons, *map(_list, (self.residual, self.norm_of_y, growth)), strict=True
        )
        for index, (reason, residual, norm_of_y, grown) in enumerate(systems):
            is_over = reason is StopReason.ROUNDING or grown * self.root > 1
            if residual > tolerance * norm_of_y and reason is not StopReason.CONVERGED and is_over:
                return (
                    f"{_NAME}: the residual |A x - y|{self._name_of(index)} must fall to gtol |y|, "
                    f"{self.gtol:.2g} |y|, got {residual / norm_of_y:.2g} |y| and |A| |x| of up to "
                    f"{grown:.2g} |y|, and more steps do not help in {self.dtype}: A is singular "
                    "or nearly so, and y may be out of its range; add a multiple of the identity "
                    "to A, take a wider dtype, or use lsqr"
                )
        return None

    def _name_of(self, index: int) -> str:
        """Return the name of a system for messages; empty if it is the only one."""
        return "" if len(self._reasons) == 1 else f" of system {index}"

    def _drift(self) -> Scalars:
        """Return the rounding of the residual; it grows as the root, because signs are random."""
        return self.rounding * math.sqrt(1 + self.age) * self.norm * self.norm_of_x

    def _is_proved(self) -> Mask:
        return (self.residual == 0) & (self.norm_of_x == 0) | (
            self.residual + self._drift() <= self.gtol * self.norm_of_y
        )

    def _reachable(self, rounding: Scalars, lowest: Scalars) -> Scalars:
        """Return the residual at which to compute it anew: one that proves, else ``lowest``."""
        proves, floor = self.gtol * self.norm_of_y - rounding, self.precision * self.norm_of_y
        lowest = lowest + (floor - lowest) * (lowest < floor)
        return proves + (lowest - proves) * (proves < floor)

    def _check_curvature(self, measured: StepNumbers) -> None:
        """Refuse systems whose p^H A p shows that A is not Hermitian positive definite."""
        curvature, _, step, direction, image, norm, _, _, cross = measured
        # The rounding of an inner product is far below the root of the precision.
        bound, floor = direction * image, self.noise * norm * direction * direction
        bad = (magnitude_of(curvature - curvature.real) > self.root * bound + floor) | (
            curvature.real < -floor
        )
        # For a semidefinite A, |A p|^2 <= |A| p^H A p: if one is small, so is the other.
        is_large = 2 * image >= norm * direction
        bad = bad | ((curvature.real <= floor) & is_large) | (bound == 0)
        got = "p^H A p = {} for a direction p{which} with |p| |A p| = {}"
        self._refuse(bad, "A", got, curvature, bound)
        if cross is None:
            return
        self._check_finite(cross)
        norms, apart = direction + self.searched, magnitude_of(cross - curvature)
        rounding = self.noise * norm * norms**2 + self.unconjugate
        bad = (apart > self.root * image * norms + rounding) & (step != 0)
        got = (
            "a residual z and a direction p with z^H A p = {}, where it must be p^H A p = {}: "
            "apart by {} of (|p| + |z|) |A p|{which}"
        )
        subject = "A or the preconditioner" if self.has_preconditioner else "A"
        self._refuse(bad, subject, got, cross, curvature, safe_ratio(apart, image * norms))

    def _check_energy(self, energy: Products, searched: Scalars) -> None:
        """Refuse systems whose r^H M r shows that M is not Hermitian positive definite."""
        if not self.has_preconditioner:
            return  # then r^H M r is |r|^2, which cannot be negative
        bound = self.residual * searched
        bad = (magnitude_of(energy - energy.real) > self.root * bound) | (
            energy.real <= self.precision * bound
        )
        self._refuse(bad, "the preconditioner", "r^H M r = {} for a residual r{which}", energy)

    def _note_rounding(self, measured: StepNumbers) -> None:
        """Note the rounding of conjugacy of the next direction."""
        # The rounding of the residual is that of the larger term of its difference. The rounding of
        # the step is that of the curvature, in which larger terms may cancel.
        curvature = magnitude_of(measured.curvature.real)
        cancelled = 1 + safe_ratio(measured.norm * measured.direction**2, curvature)
        scaling = safe_ratio(measured.searched, measured.residual)
        rounded = measured.searched + measured.step * measured.image * scaling * cancelled
        factor = magnitude_of(safe_ratio(measured.energy.real, self.energy))
        self.unconjugate = self.noise * factor * measured.image * rounded

    def _check_finite(self, *numbers: Products) -> None:
        total = magnitude_of(sum(numbers))  # not finite where one of them is not
        if not self.is_read:
            self.refused = self.refused | self.active & ~torch.as_tensor(total).isfinite()
        elif not math.isfinite(sum(_list(total))):
            for index, value in ((i, v) for each in numbers for i, v in enumerate(_list(each))):
                if not math.isfinite(abs(value)):
                    raise ArithmeticError(
                        f"{_NAME}: values{self._name_of(index)} must stay finite, got {abs(value)}"
                    )

    def _refuse(self, bad: Mask, subject: str, got: str, *numbers: Products) -> None:
        """Raise an error with the numbers of the first bad active system, if there is one."""
        if not self.is_read:
            self.refused = self.refused | self.active & bad
        elif is_any(bad) and is_any(bad := bad & self.active):
            index = _list(bad).index(True)
            values = [f"{_list(each)[index]:.3g}" for each in numbers]
            raise ValueError(
                f"{_NAME}: {subject} must be Hermitian and positive definite, got "
                + got.format(*values, which=self._name_of(index))
                + _REMEDY * (subject == "A")
            )


def safe_ratio(numbers: Scalars, others: Scalars) -> Scalars:
    """Return the ratio, 0 where the denominator is 0."""
    return numbers / (others + (others == 0)) * (others != 0)


def on_host(*scalars: Products | None) -> list[Any]:
    """Return numbers of each system in double precision; one wait for the device."""
    tensors = [scalar.detach() for scalar in scalars if isinstance(scalar, Tensor)]
    if not tensors:
        return list(scalars)
    if tensors[0].ndim:
        rows = torch.stack(tensors).flatten(1).cpu().to(torch.complex128)
        pairs = zip(tensors, rows, strict=True)
        values = [row if tensor.is_complex() else row.real for tensor, row in pairs]
    else:
        values = host_numbers(*tensors)
    read = iter(values)
    return [next(read) if isinstance(scalar, Tensor) else scalar for scalar in scalars]


def magnitude_of(numbers: Products) -> Scalars:
    """Return the magnitudes."""
    return numbers.abs() if isinstance(numbers, Tensor) else abs(numbers)


def _list(numbers: Products) -> list[Any]:
    return numbers.tolist() if isinstance(numbers, Tensor) else [numbers]


def largest_number(numbers: Scalars) -> float:
    """Return the largest real number of all systems."""
    return max(_list(numbers), default=0.0)


def is_any(which: Mask) -> bool:
    """Return whether it is so for a system."""
    return bool(which.any()) if isinstance(which, Tensor) else bool(which)

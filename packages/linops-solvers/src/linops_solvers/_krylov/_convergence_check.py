"""The checks of conjugate gradients: is A Hermitian positive definite, and is a system solved?

Numbers are those of Python for one system, and tensors on the host for several.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from .._shared._precision import rounding_of
from .._shared._progress import StopReason
from ._definiteness import N_CHECKED, Definiteness, Measured, Numbers, over

_NAME = "conjugate_gradients"
_REMEDIES = {
    "A": "; minres solves indefinite Hermitian systems, gmres all square ones, lsqr least squares"
}


class ConvergenceCheck:
    """The state of all systems, in units in which each right-hand side is near 1.

    A system converges when its residual plus a bound of its rounding is below the tolerance, and
    the loss no longer decreases. If only the residual of the recurrence is below the tolerance, the
    system waits until the residual is computed anew.
    """

    def __init__(
        self,
        size: Numbers,  # |y|
        loss: Numbers,  # f at the first guess
        residual: Numbers,  # |A x - y| there
        image: Numbers,  # |A| |x| there, or |A x| where the residual is above the tolerance
        tolerances: tuple[float, float],
        definite: Definiteness,
        preconditioner: object,
        first_system: int | None = None,  # number of the system, if others are solved separately
    ) -> None:
        self.first_system = first_system
        self.reasons: list[StopReason | None] = [None] * len(_list(size))
        self._check_finite(size, loss, residual, image)
        # For a right-hand side of zero the tolerance is relative to this.
        size = size + residual * (size == 0)
        self.size, self.loss, self.residual = size, loss, residual
        self.gtol, self.ltol = tolerances
        self.definite, self.dtype = definite, definite.dtype
        self.precision = precision = definite.precision
        self.rounding = rounding = rounding_of(self.dtype)
        self.suspects = "A" if preconditioner is None else "A or the preconditioner"
        # Bounds of |A| and |x|. The steps show |A|; until then the second bound includes it.
        self.norm, self.length = 1.0, image
        self.decrease = 0.0  # of the loss in the last step, relative to it; the largest
        self.age = 0  # number of steps since the residual was computed
        self.verified = math.inf + 0.0 * size
        self.goal = self._reachable(rounding * size, precision * size)
        self.energy = self.searched = residual
        self.n_steps = 0
        self.active: Numbers = size >= 0
        self.waiting: Numbers = size < 0
        self.stop(self._is_proved(), StopReason.CONVERGED)
        self.stop(residual <= precision * size, StopReason.ROUNDING)

    def restore(self, reasons: list[StopReason | None]) -> None:
        """Take the reasons of a checkpoint, whose numbers were loaded; move these to the host."""
        self.reasons = reasons
        for part in (self, self.definite):
            tensors = {k: v.cpu() for k, v in vars(part).items() if isinstance(v, Tensor)}
            vars(part).update(tensors)

    @property
    def relative(self) -> float:
        """The largest relative residual."""
        sizes, residuals = _list(self.size), _list(self.residual)
        return max((r / (n or 1.0) for r, n in zip(residuals, sizes, strict=True)), default=0.0)

    def stop(self, which: Numbers, reason: StopReason) -> None:
        """Note the reason of those systems that are still active."""
        if not is_any(which):
            return
        which = which & self.active
        self.active = self.active ^ which
        for index, stopped in enumerate(_list(which)):
            if stopped:
                self.reasons[index] = reason

    def begin(self, energy: Numbers, searched: Numbers) -> None:
        """Note the first r^H z and |z|."""
        self._check_finite(energy, searched)
        self._check_energy(energy, searched)
        self.energy, self.searched = energy.real, searched

    def step(self, measured: Measured) -> None:
        """Check A and the preconditioner by the numbers of a step, and stop solved systems."""
        self.n_steps += 1
        self._check_curvature(measured)
        self._check_finite(measured.energy, measured.residual, measured.searched, measured.step)
        step = measured.step
        self.norm = measured.norm
        self.length = self.length + step * measured.direction
        self.age += 1
        decrease = 0.5 * step * self.energy
        self.stop(step == 0, StopReason.ROUNDING)
        self.loss = self.loss - decrease
        self.decrease = max(_list(over(decrease, abs(self.loss))), default=0.0)
        self.residual = measured.residual
        # A residual that is lost in rounding does not decrease the loss.
        is_still = decrease <= self.ltol * abs(self.loss)
        is_still = is_still | (self.residual <= self.precision * self.size) | (self.ltol == 0)
        if self.gtol or not self.ltol:
            self.stop(self._is_proved() & is_still, StopReason.CONVERGED)
            waits = self.active & (self.residual <= self.goal) & is_still
            self.waiting, self.active = self.waiting | waits, self.active ^ waits
        else:
            self.stop(is_still, StopReason.STALLED)
        if is_any(self.active):
            self._check_energy(measured.energy, measured.searched)
        if self.n_steps <= N_CHECKED:
            self.definite.note_rounding(measured, self.energy)
        self.energy, self.searched = measured.energy.real, measured.searched

    def passes(self, measured: Measured) -> bool:
        """Note a step of one system and return True, if it is sure that no rule applies.

        It has the numbers of :meth:`step`, for a step in which overhead counts.
        """
        curvature, found, step, direction, image, norm, residual, _, cross = measured
        root, ltol, size = self.definite.root, 0.0 if self.gtol else self.ltol, direction * image
        decrease, length = 0.5 * step * self.energy, self.length + step * direction
        loss = self.loss - decrease
        if (
            residual > self.goal
            and residual > self.gtol * self.size
            and curvature.real > self.definite.noise * norm * direction * direction
            and abs(curvature.imag) <= root * size
            and (cross is None or abs(cross - curvature) <= root * (size + self.searched * image))
            and residual + image + length < math.inf
            and (not ltol or decrease > ltol * abs(loss))
        ):
            if cross is not None:
                self.definite.note_rounding(measured, self.energy)
            self.n_steps, self.age = self.n_steps + 1, self.age + 1
            self.norm, self.length, self.loss = norm, length, loss
            self.energy, self.residual, self.searched = found, residual, residual
            return True
        return False

    @property
    def has_to_verify(self) -> bool:
        """Whether the residuals must be computed anew before any system can go on."""
        if is_any(self.active):
            return False
        is_unsure = _list(self._drift() > 0.5 * self.residual)
        return is_any(self.waiting) or any(
            unsure and reason is not StopReason.CONVERGED
            for unsure, reason in zip(is_unsure, self.reasons, strict=True)
        )

    def verify(self, residual: Numbers, length: Numbers) -> None:
        """Take the residuals computed anew and |x|; systems above the tolerance go on."""
        self._check_finite(residual, length)
        self.residual, self.length, self.age = residual, length, 0
        waited, self.waiting = self.waiting, self.waiting & False
        self.active = waited
        self.stop(self._is_proved(), StopReason.CONVERGED)
        self.goal = self._reachable(self._drift(), self._drift())
        is_best = (residual <= self.goal) | (residual > 0.9 * self.verified)
        self.stop(is_best, StopReason.ROUNDING)
        self.verified = residual
        self.definite.unconjugate = 0.0

    def complaint(self) -> str | None:
        """Return the warning if a residual misses its tolerance by far, else None."""
        root = math.sqrt(self.precision)
        tolerance = self.gtol if self.gtol >= 64 * self.precision else max(self.gtol, root)
        growth = over(self.norm * self.length, self.size)
        systems = zip(self.reasons, *map(_list, (self.residual, self.size, growth)), strict=True)
        for index, (reason, residual, size, grown) in enumerate(systems):
            is_over = reason is StopReason.ROUNDING or grown * root > 1
            if residual > tolerance * size and reason is not StopReason.CONVERGED and is_over:
                which = self._name_of(index)
                return (
                    f"{_NAME}: the residual |A x - y|{which} must fall to gtol |y|, "
                    f"{self.gtol:.2g} |y|, got {residual / size:.2g} |y| and |A| |x| of up to "
                    f"{grown:.2g} |y|, and more steps do not help in {self.dtype}: A is singular "
                    "or nearly so, and y may be out of its range; add a multiple of the identity "
                    "to A, take a wider dtype, or use lsqr"
                )
        return None

    def _name_of(self, index: int) -> str:
        """Return the name of a system for messages; empty if it is the only one."""
        is_one = len(self.reasons) == 1 and self.first_system is None
        return "" if is_one else f" of system {(self.first_system or 0) + index}"

    def _drift(self) -> Numbers:
        """Return the rounding of the residual; it grows as the root, because signs are random."""
        return self.rounding * math.sqrt(1 + self.age) * self.norm * self.length

    def _is_proved(self) -> Numbers:
        return (self.residual == 0) & (self.length == 0) | (
            self.residual + self._drift() <= self.gtol * self.size
        )

    def _reachable(self, rounding: Numbers, lowest: Numbers) -> Numbers:
        """Return the residual at which to compute it anew: one that proves, else ``lowest``."""
        proves, floor = self.gtol * self.size - rounding, self.precision * self.size
        lowest = lowest + (floor - lowest) * (lowest < floor)
        return proves + (lowest - proves) * (proves < floor)

    def _check_curvature(self, measured: Measured) -> None:
        curvature, cross = measured.curvature, measured.cross
        self._check_finite(curvature, measured.direction, measured.image, self.length)
        size = measured.direction * measured.image
        bad = self.definite.refutes_curvature(measured)
        found = "p^H A p = {} for a direction p{which} with |p| |A p| = {}"
        self._refuse(bad, "A", found, curvature, size)
        if cross is None:
            return
        self._check_finite(cross)
        apart = over(abs(cross - curvature), measured.image * (measured.direction + self.searched))
        found = (
            "a residual z and a direction p with z^H A p = {}, where it must be p^H A p = {}: "
            "apart by {} of (|p| + |z|) |A p|{which}"
        )
        bad = self.definite.refutes_conjugacy(measured, self.searched)
        self._refuse(bad, self.suspects, found, cross, curvature, apart)

    def _check_energy(self, energy: Numbers, searched: Numbers) -> None:
        bad = self.definite.refutes_energy(energy, self.residual, searched)
        self._refuse(bad, "the preconditioner", "r^H M r = {} for a residual r{which}", energy)

    def _check_finite(self, *numbers: Numbers) -> None:
        total = sum(numbers)  # not finite where one of them is not
        if not isinstance(total, Tensor) and math.isfinite(abs(total)):
            return
        for values in numbers:
            for index, value in enumerate(_list(values)):
                if not math.isfinite(abs(value)):
                    raise ArithmeticError(
                        f"{_NAME}: values{self._name_of(index)} must stay finite, got {abs(value)}"
                    )

    def _refuse(self, bad: Numbers, who: str, found: str, *numbers: Numbers) -> None:
        """Raise an error with the numbers of the first bad active system, if there is one."""
        if is_any(bad) and is_any(bad := bad & self.active):
            systems = _list(bad)
            index = systems.index(True)
            which = self._name_of(index)
            values = [f"{_list(each)[index]:.3g}" for each in numbers]
            raise ValueError(
                f"{_NAME}: {who} must be Hermitian and positive definite, got "
                + found.format(*values, which=which)
                + _REMEDIES.get(who, "")
            )


def _list(numbers: Numbers) -> list[Any]:
    return numbers.tolist() if isinstance(numbers, Tensor) else [numbers]


def is_any(which: Numbers) -> bool:
    """Return whether it is so for a system."""
    return bool(which.any()) if isinstance(which, Tensor) else bool(which)

"""What conjugate gradients know of each system: is it one, is it solved, is it to be believed?

Numbers are Python's own where there is one system, which costs a microsecond, and tensors with one
for each system on the host where there are more. The arithmetic is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ._step import StopReason

_NAME = "conjugate_gradients"

Numbers: TypeAlias = Any  # float or complex, or a Tensor of them


@dataclass(frozen=True)
class Measured:
    """Numbers of a step.

    p is the direction, r the residual behind the step, z the same preconditioned; z' is that
    before the step.
    """

    curvature: Numbers
    """p^H A p"""
    cross: Numbers
    """z'^H A p"""
    energy: Numbers
    """r^H z"""
    step: Numbers
    """Length of the step along p; 0 where the curvature drowns in rounding."""
    direction: Numbers
    """|p|"""
    image: Numbers
    """|A p|"""
    norm: Numbers
    """Largest |A p| / |p| so far."""
    residual: Numbers
    """|r|"""
    searched: Numbers
    """|z|"""


class Judge:
    """Keeps the books of all systems; in units in which each right-hand side is near 1.

    Parameters
    ----------
    size : float or Tensor
        |y| of each system.
    loss : float or Tensor
        f at the first guess.
    residual : float or Tensor
        |A x - y| there.
    gtol, ltol : float
        As of the solver.
    precision : float
        Of the dtype of the vectors.
    is_preconditioned : bool
        Whether a direction that is wrong may be so because of a preconditioner.
    """

    def __init__(
        self,
        size: Numbers,
        loss: Numbers,
        residual: Numbers,
        gtol: float,
        ltol: float,
        precision: float,
        is_preconditioned: bool = False,
    ) -> None:
        _check_finite(size, loss, residual)
        # Of a right-hand side of zero there is nothing else that the tolerance could be of.
        size = size + residual * (size == 0)
        self.size, self.loss, self.residual = size, loss, residual
        self.gtol, self.ltol, self.precision = gtol, ltol, precision
        self.suspects = "A or the preconditioner" if is_preconditioned else "A"
        # Below the precision the recurrence goes on, and the residual itself does not.
        self.goal = max(gtol, precision) * size
        self.energy = self.searched = residual
        self.drift = 0.0 * size
        # What rounding leaves of p'^H A p times the factor of p' in p, of two directions.
        self.unconjugate = 0.0 * size
        self.n_steps = 0
        self.reasons: list[StopReason | None] = [None] * _count(size)
        self.active: Numbers = size >= 0
        self.stop(residual <= self.goal, StopReason.CONVERGED)

    @property
    def is_done(self) -> bool:
        """Whether all systems have stopped."""
        return None not in self.reasons

    @property
    def relative(self) -> float:
        """The largest relative residual."""
        sizes, residuals = _list(self.size), _list(self.residual)
        return max((r / (n or 1.0) for r, n in zip(residuals, sizes, strict=True)), default=0.0)

    def stop(self, which: Numbers, reason: StopReason) -> None:
        """Note the reason for those systems that are still active."""
        which = which & self.active
        if not _any(which):
            return
        self.active = self.active ^ which
        for index, stopped in enumerate(_list(which)):
            if stopped:
                self.reasons[index] = reason

    def begin(self, energy: Numbers, searched: Numbers) -> None:
        """Take note of the first r^H z and |z|."""
        _check_finite(energy, searched)
        self._check_energy(energy, searched)
        self.energy, self.searched = energy.real, searched

    def change_unit(self, unit: Numbers) -> None:
        """Take A in another unit from here on: x and f are multiplied by it, |A x - y| is not."""
        self.loss = self.loss * unit

    def step(self, measured: Measured) -> None:
        """Check what a step tells of A, and decide which systems are solved.

        Raises
        ------
        ValueError
            If A or the preconditioner shows itself not to be Hermitian positive definite.
        ArithmeticError
            If a number is not finite.
        """
        self.n_steps += 1
        self._check_curvature(measured)
        _check_finite(measured.energy, measured.residual, measured.searched, measured.step)
        step = measured.step
        self.drift = self.drift + self.precision * measured.norm * step * measured.direction
        decrease = 0.5 * step * self.energy
        self.stop(step == 0, StopReason.ROUNDING)
        self.loss = self.loss - decrease
        self.residual = measured.residual
        self.stop(self.residual <= self.goal, StopReason.CONVERGED)
        self.stop(decrease <= self.ltol * abs(self.loss), StopReason.STALLED)
        if not self.is_done:
            self._check_energy(measured.energy, measured.searched)
        self._note_rounding(measured)
        self.energy, self.searched = measured.energy.real, measured.searched

    @property
    def is_doubtful(self) -> bool:
        """Whether rounding may have parted the recurrence from the residual."""
        return self.gtol < self.precision or _any(self.drift > 0.25 * self.goal)

    def verify(self, residual: Numbers) -> None:
        """Take the residuals as they are, and take back what they do not confirm."""
        _check_finite(residual)
        self.residual = residual
        for index, missed in enumerate(_list(residual > self.gtol * self.size)):
            if missed and self.reasons[index] is StopReason.CONVERGED:
                self.reasons[index] = StopReason.ROUNDING

    def _check_curvature(self, measured: Measured) -> None:
        curvature, cross = measured.curvature, measured.cross
        _check_finite(curvature, cross, measured.direction, measured.image)
        # The rounding of an inner product is far below the root of the precision.
        size = measured.direction * measured.image
        root = self.precision**0.5
        floor = rounding_of_curvature(measured.norm, measured.direction, self.precision)
        bad = (abs(curvature.imag) > root * size + floor) | (curvature.real < -floor)
        # Of a semidefinite A, |A p|^2 is at most |A| p^H A p: both are small, or none is.
        is_large = 2 * measured.image >= measured.norm * measured.direction
        bad = bad | ((curvature.real <= floor) & is_large)
        bad = (bad | (size == 0)) & self.active
        if _any(bad):
            raise ValueError(
                f"{_NAME}: A must be Hermitian and positive definite, got p^H A p = "
                f"{_first(curvature, bad)} for a direction p{_which(bad)} with "
                f"|p| |A p| = {_first(size, bad)}"
            )
        if self.n_steps > 3:  # then its own rounding makes directions less and less conjugate
            return
        length = measured.direction + self.searched
        rounding = rounding_of_curvature(measured.norm, length, self.precision) + self.unconjugate
        bad = abs(cross - curvature) > root * measured.image * length + rounding
        bad = bad & (measured.step != 0) & self.active
        if _any(bad):
            apart = abs(cross - curvature) / (measured.image * length)
            raise ValueError(
                f"{_NAME}: {self.suspects} must be Hermitian and positive definite, got a residual "
                f"z and a direction p with z^H A p = {_first(cross, bad)}, where it must be "
                f"p^H A p = {_first(curvature, bad)}: apart by {_first(apart, bad)} of "
                f"(|p| + |z|) |A p|{_which(bad)}"
            )

    def _note_rounding(self, measured: Measured) -> None:
        """Take note of how far the next direction may be from conjugate to this one.

        The residual is rounded as the larger of the two that it is the difference of; the length
        of the step is as the curvature is, in which larger terms may cancel.
        """
        curvature = abs(measured.curvature.real)
        cancelled = 1 + _over(measured.norm * measured.direction**2, curvature)
        scaling = _over(measured.searched, measured.residual)
        rounded = self.searched + measured.step * measured.image * scaling * cancelled
        factor = abs(_over(measured.energy.real, self.energy))
        self.unconjugate = 64 * self.precision * factor * measured.image * rounded

    def _check_energy(self, energy: Numbers, searched: Numbers) -> None:
        size = self.residual * searched
        root = self.precision**0.5
        bad = (abs(energy.imag) > root * size) | (energy.real <= self.precision * size)
        bad &= self.active
        if _any(bad):
            raise ValueError(
                f"{_NAME}: the preconditioner must be Hermitian and positive definite, got "
                f"r^H M r = {_first(energy, bad)} for a residual r{_which(bad)}"
            )


def rounding_of_curvature(norm: Numbers, direction: Numbers, precision: float) -> Numbers:
    """Return how large p^H A p may be where it is 0, for the norms of A and of p."""
    return 64 * precision * norm * direction * direction


def _over(numbers: Numbers, others: Numbers) -> Numbers:
    """Return the ratio, 0 where the others are 0."""
    return numbers / (others + (others == 0)) * (others != 0)


def on_host(*scalars: Tensor) -> list[Numbers]:
    """Return numbers of each system in double precision; one wait for the device."""
    stacked = torch.stack([scalar.detach() for scalar in scalars])
    if stacked.ndim == 1:
        return stacked.tolist()
    # Complex, because a real tensor has no imaginary part.
    return list(stacked.flatten(1).cpu().to(torch.complex128))


def _count(numbers: Numbers) -> int:
    return numbers.numel() if isinstance(numbers, Tensor) else 1


def _list(numbers: Numbers) -> list[Any]:
    return numbers.tolist() if isinstance(numbers, Tensor) else [numbers]


def _any(which: Numbers) -> bool:
    return bool(which.any()) if isinstance(which, Tensor) else bool(which)


def _first(numbers: Numbers, bad: Numbers) -> str:
    value = numbers[bad][0].item() if isinstance(numbers, Tensor) else numbers
    return f"{value:.3g}"


def _which(bad: Numbers) -> str:
    return f" of system {_list(bad).index(True)}" if _count(bad) > 1 else ""


def _check_finite(*numbers: Numbers) -> None:
    for values in numbers:
        if isinstance(values, Tensor):
            if values.isfinite().all():
                continue
            values = values[~values.isfinite()][0].item()
        if not math.isfinite(abs(values)):
            raise ArithmeticError(f"{_NAME}: values must stay finite, got {abs(values)}")

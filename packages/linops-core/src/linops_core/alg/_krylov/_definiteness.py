"""Which numbers of a step show that A, or its preconditioner, is not Hermitian positive definite.

They are Python's own, or tensors: then no value of them is read, so that a compiler can follow.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

Numbers: TypeAlias = Any  # float or complex, or a Tensor of them
N_CHECKED = 3
"""The steps in which directions must be conjugate: later on rounding makes them less so."""


class Measured(NamedTuple):
    """Numbers of a step along p, with r the residual behind it and z the same preconditioned."""

    curvature: Numbers  # p^H A p
    energy: Numbers  # r^H z
    step: Numbers  # length of the step along p; 0 where the curvature drowns in rounding
    direction: Numbers  # |p|
    image: Numbers  # |A p|
    norm: Numbers  # largest |A p| / |p| so far
    residual: Numbers  # |r|
    searched: Numbers  # |z|
    cross: Numbers | None = None  # z'^H A p for the z' before the step; in the first steps


class Definiteness:
    """What the steps of conjugate gradients refute, in units in which vectors are near 1."""

    def __init__(self, dtype: torch.dtype) -> None:  # of what A returns
        self.precision = torch.finfo(dtype).eps
        # How large p^H A p may be where it is 0, relative to |A| |p|^2: sums, and half precision.
        sums = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        self.noise = max(64 * sums, 4 * self.precision)
        # What rounding leaves of p'^H A p times the factor of p' in p, of two directions.
        self.unconjugate: Numbers = 0.0

    def floor(self, norm: Numbers, direction: Numbers) -> Numbers:
        """Return how large a p^H A p that is 0 may be for |A| and |p|."""
        return self.noise * norm * direction * direction

    def refutes_curvature(self, measured: Measured) -> Numbers:
        """Return whether p^H A p is not that of such an A."""
        curvature = measured.curvature
        # The rounding of an inner product is far below the root of the precision.
        size = measured.direction * measured.image
        root = self.precision**0.5
        floor = self.floor(measured.norm, measured.direction)
        bad = (abs(_imaginary(curvature)) > root * size + floor) | (curvature.real < -floor)
        # Of a semidefinite A, |A p|^2 is at most |A| p^H A p: both are small, or none is.
        is_large = 2 * measured.image >= measured.norm * measured.direction
        return bad | ((curvature.real <= floor) & is_large) | (size == 0)

    def refutes_conjugacy(self, measured: Measured, searched: Numbers) -> Numbers:
        """Return whether p is not conjugate to the direction before it; |z'| is ``searched``."""
        root = self.precision**0.5
        length = measured.direction + searched
        rounding = self.noise * measured.norm * length**2 + self.unconjugate
        apart = abs(measured.cross - measured.curvature)
        return (apart > root * measured.image * length + rounding) & (measured.step != 0)

    def refutes_energy(self, energy: Numbers, residual: Numbers, searched: Numbers) -> Numbers:
        """Return whether r^H M r is not that of a Hermitian positive definite M."""
        size = residual * searched
        is_complex = abs(_imaginary(energy)) > self.precision**0.5 * size
        return is_complex | (energy.real <= self.precision * size)

    def note_rounding(self, measured: Measured, energy: Numbers) -> None:
        """Note how far the next direction may be from conjugate; ``energy`` is that before."""
        # The residual is rounded as the larger of the two that it is the difference of; the length
        # of the step is as the curvature is, in which larger terms may cancel.
        curvature = abs(measured.curvature.real)
        cancelled = 1 + over(measured.norm * measured.direction**2, curvature)
        scaling = over(measured.searched, measured.residual)
        rounded = measured.searched + measured.step * measured.image * scaling * cancelled
        factor = abs(over(measured.energy.real, energy))
        self.unconjugate = self.noise * factor * measured.image * rounded


def over(numbers: Numbers, others: Numbers) -> Numbers:
    """Return the ratio, 0 where the others are 0."""
    return numbers / (others + (others == 0)) * (others != 0)


def _imaginary(number: Numbers) -> Numbers:
    is_real = isinstance(number, Tensor) and not number.is_complex()
    return torch.zeros_like(number) if is_real else number.imag

"""Tests that show that A, or the preconditioner, is not Hermitian positive definite.

They take numbers of Python, or tensors whose values are not read, so that a compiler can trace.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

Numbers: TypeAlias = Any  # float or complex, or a Tensor of them
N_CHECKED = 3
"""Number of first steps in which directions must be conjugate; later rounding spoils it."""


class Measured(NamedTuple):
    """Numbers of a step along p, with r the residual behind it and z the same preconditioned."""

    curvature: Numbers  # p^H A p
    energy: Numbers  # r^H z
    step: Numbers  # length of the step along p; 0 if the curvature is lost in rounding
    direction: Numbers  # |p|
    image: Numbers  # |A p|
    norm: Numbers  # largest |A p| / |p| so far
    residual: Numbers  # |r|
    searched: Numbers  # |z|
    cross: Numbers | None = None  # z'^H A p for the z' before the step; in the first steps

    def on_host(self) -> Measured:
        """Return the same numbers in double precision; one wait for the device."""
        if not isinstance(self.curvature, Tensor) and not isinstance(self.energy, Tensor):
            return self
        curvature, energy, *reals, cross = on_host(*self)
        return Measured._make([curvature, energy, *(number.real for number in reals), cross])


class Definiteness:
    """Checks of the steps of conjugate gradients, in units in which vectors are near 1."""

    def __init__(self, dtype: torch.dtype) -> None:  # of the output of A
        self.dtype, self.precision = dtype, torch.finfo(dtype).eps
        self.root = self.precision**0.5
        # Rounding of p^H A p relative to |A| |p|^2: sums, and half precision.
        sums = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        self.noise = max(64 * sums, 4 * self.precision)
        # Rounding of p'^H A p times the factor of p' in p, for two directions.
        self.unconjugate: Numbers = 0.0

    def floor(self, norm: Numbers, direction: Numbers) -> Numbers:
        """Return the rounding of p^H A p for |A| and |p|."""
        return self.noise * norm * direction * direction

    def refutes_curvature(self, measured: Measured) -> Numbers:
        """Return whether p^H A p shows that A is not Hermitian positive definite."""
        curvature = measured.curvature
        # The rounding of an inner product is far below the root of the precision.
        size = measured.direction * measured.image
        floor = self.floor(measured.norm, measured.direction)
        bad = (abs(_imaginary(curvature)) > self.root * size + floor) | (curvature.real < -floor)
        # For a semidefinite A, |A p|^2 <= |A| p^H A p: if one is small, so is the other.
        is_large = 2 * measured.image >= measured.norm * measured.direction
        return bad | ((curvature.real <= floor) & is_large) | (size == 0)

    def refutes_conjugacy(self, measured: Measured, searched: Numbers) -> Numbers:
        """Return whether p is not conjugate to the previous direction; |z'| is ``searched``."""
        length = measured.direction + searched
        rounding = self.noise * measured.norm * length**2 + self.unconjugate
        apart = abs(measured.cross - measured.curvature)
        return (apart > self.root * measured.image * length + rounding) & (measured.step != 0)

    def refutes_energy(self, energy: Numbers, residual: Numbers, searched: Numbers) -> Numbers:
        """Return whether r^H M r shows that M is not Hermitian positive definite."""
        size = residual * searched
        is_complex = abs(_imaginary(energy)) > self.root * size
        return is_complex | (energy.real <= self.precision * size)

    def note_rounding(self, measured: Measured, energy: Numbers) -> None:
        """Note the rounding of conjugacy of the next direction; ``energy`` is the previous one."""
        # The rounding of the residual is that of the larger term of its difference. The rounding of
        # the step is that of the curvature, in which larger terms may cancel.
        curvature = abs(measured.curvature.real)
        cancelled = 1 + over(measured.norm * measured.direction**2, curvature)
        scaling = over(measured.searched, measured.residual)
        rounded = measured.searched + measured.step * measured.image * scaling * cancelled
        factor = abs(over(measured.energy.real, energy))
        self.unconjugate = self.noise * factor * measured.image * rounded


def over(numbers: Numbers, others: Numbers) -> Numbers:
    """Return the ratio, 0 where the denominator is 0."""
    return numbers / (others + (others == 0)) * (others != 0)


def on_host(*scalars: Tensor | Numbers | None) -> list[Numbers]:
    """Return numbers of each system in double precision; one wait for the device."""
    tensors = [scalar.detach() for scalar in scalars if isinstance(scalar, Tensor)]
    if not tensors:
        return list(scalars)
    values: list[Numbers]
    if tensors[0].ndim:  # complex, because a real tensor has no imaginary part
        values = list(torch.stack(tensors).flatten(1).cpu().to(torch.complex128))
    elif tensors[0].is_cpu:  # one by one is faster here
        values = [tensor.item() for tensor in tensors]
    else:  # one complex number makes all of them complex
        pairs = zip(tensors, torch.stack(tensors).tolist(), strict=True)
        values = [value if tensor.is_complex() else value.real for tensor, value in pairs]
    found = iter(values)
    return [next(found) if isinstance(scalar, Tensor) else scalar for scalar in scalars]


def reals_on_host(*scalars: Tensor | Numbers) -> list[Numbers]:
    """Return real numbers of each system in double precision; one wait for the device."""
    return [numbers.real for numbers in on_host(*scalars)]


def _imaginary(number: Numbers) -> Numbers:
    is_real = isinstance(number, Tensor) and not number.is_complex()
    return torch.zeros_like(number) if is_real else number.imag

"""Conjugate gradients with a fixed number of steps that read no values, for compilers."""

from __future__ import annotations

import torch
from torch import Tensor

from .._shared._checks import Operator, in_own_space
from .._shared._precision import narrowed, widened
from .._shared._vectors import BatchedVectors
from ._definiteness import N_CHECKED, Definiteness, Measured

_NAME = "conjugate_gradients"


def fixed_steps(
    A: Operator,
    preconditioner: Operator | None,
    batch: BatchedVectors,
    y: Tensor,
    x0: Tensor | None,
    n_steps: int,
) -> Tensor:
    """Return x after that number of steps; NaN where the eager solver would raise an error.

    A system stays as it is once its residual or curvature is lost in rounding.
    """

    def applied(operator: Operator, x: Tensor, name: str = "A") -> Tensor:
        return widened(in_own_space(_NAME, operator, narrowed(x, y.dtype), name))

    def searched_of(residual: Tensor) -> Tensor:
        if preconditioner is None:
            return residual
        return applied(preconditioner, residual, "the preconditioner")

    definite, guess = Definiteness(y.dtype), None if x0 is None else widened(x0)
    right = widened(y)
    residual = right if guess is None else right - applied(A, guess)
    unit = batch.unit(right, 0.0).maximum(batch.unit(residual, 0.0))
    unit = torch.where(unit > 0, unit, 1)
    unit_of_A = torch.ones_like(unit)
    size = batch.norm(right / unit)
    residual = residual / unit
    x, searched = torch.zeros_like(residual), searched_of(residual)
    direction, norm, length = searched, batch.norm(residual), batch.norm(searched)
    size = size + norm * (size == 0)
    energy, norm_of_A = batch.inner(residual, searched), torch.zeros_like(norm)
    active = ~(norm <= definite.precision * size)  # so that NaN propagates and is seen
    refused = active & definite.refutes_energy(energy, norm, length)
    for step_number in range(n_steps):
        image = applied(A, direction)
        if step_number == 0:
            unit_of_A = batch.unit(image)
        image = image / unit_of_A
        curvature = batch.inner(direction, image)
        cross = batch.inner(searched, image) if step_number < N_CHECKED else None
        moved, bent = batch.norm(direction), batch.norm(image)
        norm_of_A = torch.fmax(norm_of_A, bent / moved).detach()
        is_valid = active & (curvature.real > definite.floor(norm_of_A, moved))
        step = _ratio(energy, curvature, is_valid)
        x, residual = x + step * direction, residual - step * image
        searched, before, searched_before = searched_of(residual), energy, length
        energy = batch.inner(residual, searched)
        norm, length = batch.norm(residual), batch.norm(searched)
        numbers = (step, moved, bent, norm_of_A, norm, length)
        measured = Measured(curvature, energy, *numbers, cross)
        found = definite.refutes_curvature(measured) | ~(moved * bent * norm).isfinite()
        if cross is not None:
            found = found | definite.refutes_conjugacy(measured, searched_before)
            definite.note_rounding(measured, before.real)
        refused = refused | (active & found)
        active = is_valid & ~(norm <= definite.precision * size)
        refused = refused | (active & definite.refutes_energy(energy, norm, length))
        direction = searched + _ratio(energy, before, active & (before.real > 0)) * direction
    x = x * (unit / unit_of_A)
    x = torch.where(refused, torch.nan, x if guess is None else guess + x)
    return narrowed(x, y.dtype)


def _ratio(numbers: Tensor, others: Tensor, is_valid: Tensor) -> Tensor:
    """Return the ratio of real parts, 0 where it is masked."""
    return torch.where(is_valid, numbers.real / torch.where(is_valid, others.real, 1), 0)

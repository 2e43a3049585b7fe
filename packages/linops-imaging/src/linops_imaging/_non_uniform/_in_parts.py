"""Operators applied to some slices of a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from linops_core.siblings import concatenate, steps_that_differ


def applied_in_parts(
    linop: Callable[[Tensor], Tensor],
    x: Tensor,
    axes: Sequence[tuple[int, int]],
    nbytes: int,
    at_once: int,
) -> Tensor:
    """Return A x, cut so that a part needs about ``at_once`` of ``nbytes``.

    It is cut along ``axes``, pairs of an axis of x and the same axis of the result.
    """
    if nbytes <= at_once or not axes:
        return linop(x)
    (axis, to), *others = axes
    n = x.shape[axis]
    step = max(1, n * at_once // nbytes)
    parts = (
        applied_in_parts(linop, piece, others, nbytes * piece.shape[axis] // n, at_once)
        for piece in steps_that_differ(x, x.split(step, axis), lambda piece: piece)
    )
    return concatenate(parts, to, n)


def others_of(ndim: int, axes: Sequence[int]) -> list[int]:
    """Return the axes among ``ndim`` that are not in ``axes``."""
    left_out = {axis % ndim for axis in axes}
    return [axis for axis in range(ndim) if axis not in left_out]

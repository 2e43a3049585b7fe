"""Whether a vector is one of the input space of an operator, or of its output space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape

if TYPE_CHECKING:
    from ._linop import NamedLinop

Side: TypeAlias = Literal["input", "output"]
"""The side of an operator that is meant."""
SIDES: tuple[Side, Side] = ("input", "output")
Source: TypeAlias = "tuple[NamedLinop, Side, int] | int | None"
"""Who knows a length: an operator at a position of one of its sides, or a number that stays."""


def dims_of(shape: NamedShape, side: Side) -> tuple[NamedDimension, ...]:
    """Return the names of that side."""
    return shape.ishape if side == "input" else shape.oshape


def check_rank(linop: NamedLinop, x: object, side: Side) -> None:
    """Check that x is a tensor with as many dimensions as that side has names.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If it has more or fewer dimensions.
    """
    if not isinstance(x, Tensor):
        is_operator = hasattr(x, "ishape")
        advice = (
            "compose operators with A @ B" if is_operator else "make it one: torch.as_tensor(x)"
        )
        raise TypeError(f"{linop.name}: the {side} must be a torch.Tensor, got {type(x)}; {advice}")
    names = dims_of(linop.shape, side)
    any_run = ELLIPSES in names
    if (x.ndim < len(names) - 1) if any_run else (x.ndim != len(names)):
        raise ValueError(
            f"{linop.name}: the {side} must have {'at least ' * any_run}"
            f"{len(names) - any_run} dimensions for {linop.shape}, "
            f"got shape {tuple(x.shape)}"
        )


def check_sizes(linop: NamedLinop, shape: torch.Size, side: Side) -> None:
    """Check the sizes that the operator knows.

    Raises
    ------
    ValueError
        If the vector has another one.
    """
    names = dims_of(linop.shape, side)
    for place, (dim, size) in enumerate(zip(names, linop.sizes(side), strict=True)):
        axis = axis_of(place, names)
        if size is not None and shape[axis] != size:
            raise ValueError(
                f"{linop.name}: {dim} must have size {size}, got {shape[axis]} "
                f"in an {side} of shape {tuple(shape)} for {linop.shape}"
            )


def named_axes(
    names: tuple[NamedDimension, ...],
) -> list[tuple[int, NamedDimension]]:
    """Return (axis, dimension) of all but ``...``; axes behind it count from the end."""
    found, offset = [], 0
    for axis, dim in enumerate(names):
        if dim == ELLIPSES:
            offset = len(names)
        else:
            found.append((axis - offset, dim))
    return found


def axis_of(place: int, names: tuple[NamedDimension, ...]) -> int:
    """Return the axis of the dimension at ``place`` of ``names``; behind a ``...`` from the end."""
    return place - len(names) * (ELLIPSES in names[:place])


def occurrences(names: tuple[NamedDimension, ...]) -> list[tuple[NamedDimension, int]]:
    """Return each name with the number of those before it that are written alike.

    Only ``()`` may be there twice; the first of one side is the first of the other, and so on.
    """
    return [(dim, names[:position].count(dim)) for position, dim in enumerate(names)]


def size_of_side(linop: NamedLinop, dim: NamedDimension | str) -> int | None:
    """Return the length of ``dim`` in the input if it is there, else in the output."""
    for side in SIDES:
        names = dims_of(linop.shape, side)
        if dim in names:
            return linop.sizes(side)[names.index(dim)]
    return None


def size_of_both(linop: NamedLinop, dim: NamedDimension) -> int | None:
    """Return the length of ``dim``, None also where it has another one on the other side."""
    sizes = {
        linop.sizes(side)[names.index(dim)]
        for side in SIDES
        if dim in (names := dims_of(linop.shape, side))
    }
    if not sizes:
        return linop.size(dim)
    return sizes.pop() if len(sizes) == 1 else None


def length_of(source: Source) -> int | None:
    """Return the length that ``source`` knows now: weights may have been replaced."""
    if source is None or isinstance(source, int):
        return source
    linop, side, position = source
    return linop.sizes(side)[position]

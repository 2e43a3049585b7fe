"""Whether a vector is one of the input space of an operator, or of its output space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from nameddim import ELLIPSES, NamedDimension

if TYPE_CHECKING:
    from ._linop import NamedLinop

Side: TypeAlias = Literal["input", "output"]


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
        raise TypeError(f"{linop.name}: the {side} must be a torch.Tensor, got {type(x)}")
    names = linop.ishape if side == "input" else linop.oshape
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
    for axis, dim in named_axes(linop.ishape if side == "input" else linop.oshape):
        size = linop.size(dim)
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

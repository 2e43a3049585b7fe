"""The two sides of an operator, and the axes of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from nameddim import ELLIPSES, NamedDimension, NamedShape, is_wildcard

Side: TypeAlias = Literal["input", "output"]
"""A side of an operator."""
SIDES: tuple[Side, Side] = ("input", "output")


def dims_of(shape: NamedShape, side: Side) -> tuple[NamedDimension, ...]:
    """Return the names of that side."""
    return shape.ishape if side == "input" else shape.oshape


def named_axes(names: tuple[NamedDimension, ...]) -> list[tuple[int, NamedDimension]]:
    """Return (axis, dimension) for all but ``...``; axes behind it count from the end."""
    return [
        (axis_of(position, names), dim) for position, dim in enumerate(names) if dim != ELLIPSES
    ]


def axis_of(position: int, names: tuple[NamedDimension, ...]) -> int:
    """Return the axis of the dimension at ``position``, negative behind a ``...``."""
    return position - len(names) * (ELLIPSES in names[:position])


def occurrences(names: tuple[NamedDimension, ...]) -> list[tuple[NamedDimension, int]]:
    """Return each name with its count so far, because ``()`` may occur several times."""
    return [(dim, names[:position].count(dim)) for position, dim in enumerate(names)]


def lengths_by_occurrence(
    names: tuple[NamedDimension, ...], shape: Sequence[int]
) -> dict[tuple[NamedDimension, int], list[int]]:
    """Return the lengths of a tensor by :func:`occurrences`; of a ``...`` it may be several."""
    result, lengths, n_run = {}, [*shape], len(shape) - len(names) + 1
    for occurrence in occurrences(names):
        count = n_run if occurrence[0] == ELLIPSES else 1
        result[occurrence], lengths = lengths[:count], lengths[count:]
    return result


def with_dims_in_front(shape: NamedShape, ishape: tuple[NamedDimension, ...]) -> NamedShape | None:
    """Return ``shape`` with further dimensions in front of both sides, so that the input fits.

    None if ``ishape`` does not end with ``shape.ishape``, or ``shape`` has further dimensions in
    front already.
    """
    n_more = len(ishape) - len(shape.ishape)
    if n_more < 1 or ELLIPSES in shape.ishape or ishape[n_more:] != shape.ishape:
        return None
    front = ishape[:n_more]
    others = dict(shape.other_shapes)
    if {*front} & {*shape.ishape, *shape.oshape}.union(*others.values()):
        return None
    if "batch_shape" in others:
        others["batch_shape"] = (*front, *others["batch_shape"])
    return NamedShape((*front, *shape.ishape), (*front, *shape.oshape), **others)


def is_part_of(
    own: tuple[NamedDimension, ...], dims: tuple[NamedDimension, ...], in_order: bool = True
) -> bool:
    """Whether ``dims`` contains ``own``, in this order; a ``...`` is any number of dimensions."""
    names = [dim for dim in own if dim != ELLIPSES]
    if any(map(is_wildcard, names)) or len(names) == len(own) == len(dims):
        return False
    among = iter(dims) if in_order else dims
    return all(dim in among for dim in names)

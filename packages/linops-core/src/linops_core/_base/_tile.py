"""Slices along named dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TypeAlias

from nameddim import NamedDimension

Window: TypeAlias = Mapping[NamedDimension, slice]
"""The slice of each named dimension that a tile covers; other dimensions are whole."""
Supports: TypeAlias = dict[NamedDimension, slice | None]
"""The support of each dimension; None if it is all, or not known."""


class SplitError(ValueError):
    """An operator cannot be cut as asked; the message names the operator, dimension and reason."""

    __module__ = "linops_core"  # a traceback shows the name that users import


def normalized_slice(piece: slice, size: int | None) -> slice | None:
    """Return ``piece`` as explicit ``slice(start, stop)``, or None when it covers everything."""
    if not isinstance(piece, slice):
        raise SplitError(f"a tile must be given as a slice, got {piece!r}")
    if piece.step not in (None, 1):
        raise SplitError(f"the step of a slice must be 1, got {piece}")
    try:
        start = 0 if piece.start is None else index(piece.start)
        stop = size if piece.stop is None else index(piece.stop)
    except TypeError:
        raise SplitError(f"the ends of a slice must be integers, got {piece}") from None
    if start == 0 and stop == size:
        return None
    if size is None:
        if stop is None or stop < 0 or start < 0:
            raise SplitError(
                "the size is not known here, so both ends of a slice must be "
                f"given and not be negative, got {piece}"
            )
    else:
        assert stop is not None
        start, stop = start + size * (start < 0), stop + size * (stop < 0)
        if start < 0 or stop > size:
            raise SplitError(f"a slice must lie within the size {size}, got {piece}")
    if start >= stop:
        raise SplitError(f"a slice must hold at least one element, got {piece}")
    return None if start == 0 and stop == size else slice(start, stop)


def within(outer: slice | None, inner: slice) -> slice:
    """Return ``inner``, which counts from the start of ``outer``, counted from zero."""
    offset = 0 if outer is None else outer.start or 0
    return slice(offset + inner.start, offset + inner.stop)

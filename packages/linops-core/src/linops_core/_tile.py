"""Slices along named dimensions: what a caller may write, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from nameddim import ND, NamedDimension

Window: TypeAlias = Mapping[NamedDimension, slice]
"""Which slice of each named dimension a tile covers; dimensions left out are whole."""


class SplitError(ValueError):
    """An operator cannot be cut as asked; the message names the operator, dimension and reason."""


def normalized_slice(piece: slice, size: int | None, where: str) -> slice | None:
    """Return ``piece`` as explicit ``slice(start, stop)``, or None when it covers everything.

    Parameters
    ----------
    piece : slice
        Negative and open ends mean what they mean in Python.
    size : int or None
        Length of the dimension; None when nobody knows it, and then both ends must be given.
    where : str
        The operator and the dimension, for messages.

    Raises
    ------
    SplitError
        If the step is not 1, the slice is empty or reaches past the end, or an end counts from
        a length that is not known.
    """
    if not isinstance(piece, slice):
        raise SplitError(f"{where}: a tile must be given as a slice, got {piece!r}")
    if piece.step not in (None, 1):
        raise SplitError(f"{where}: the step of a slice must be 1, got {piece}")
    if piece.start in (None, 0) and piece.stop is None:
        return None
    if size is None:
        if piece.stop is None or piece.stop < 0 or (piece.start or 0) < 0:
            raise SplitError(
                f"{where}: the size is not known here, so both ends of a slice must be "
                f"given and not be negative, got {piece}"
            )
        start, stop = piece.start or 0, piece.stop
    else:
        start, stop = piece.start or 0, size if piece.stop is None else piece.stop
        start, stop = start + size * (start < 0), stop + size * (stop < 0)
        if start < 0 or stop > size:
            raise SplitError(f"{where}: a slice must lie within the size {size}, got {piece}")
    if start >= stop:
        raise SplitError(f"{where}: a slice must hold at least one element, got {piece}")
    return None if (start, stop) == (0, size) else slice(start, stop)


def named_window(tile: Mapping[NamedDimension, slice] | Mapping[str, slice]) -> Window:
    """Return ``tile`` with :class:`~nameddim.NamedDimension` keys."""
    return {ND.infer(dim): piece for dim, piece in tile.items()}


def within(outer: slice | None, inner: slice) -> slice:
    """Return ``inner``, counted from the start of ``outer``, counted from zero.

    Examples
    --------
    >>> within(slice(2, 6), slice(1, 3)), within(None, slice(1, 3))
    (slice(3, 5, None), slice(1, 3, None))
    """
    offset = 0 if outer is None else outer.start or 0
    return slice(offset + inner.start, offset + inner.stop)

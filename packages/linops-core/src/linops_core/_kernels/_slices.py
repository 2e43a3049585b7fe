"""Slices with explicit ends: cut to a size, joined, intersected."""

from __future__ import annotations

from collections.abc import Iterable


def clipped_slice(start: int, stop: int, size: int) -> slice:
    """Return the part of ``start`` to ``stop`` that lies within ``size``; it may be empty."""
    first = min(max(start, 0), size)
    return slice(first, max(min(stop, size), first))


def is_empty(piece: slice) -> bool:
    """Whether an explicit slice has no elements."""
    return bool(piece.start >= piece.stop)


def hull(pieces: Iterable[slice]) -> slice:
    """Return the shortest slice that holds all of the pieces."""
    ends = [(piece.start, piece.stop) for piece in pieces if not is_empty(piece)]
    if not ends:
        return slice(0, 0)
    return slice(min(start for start, _ in ends), max(stop for _, stop in ends))


def intersection(pieces: Iterable[slice | None]) -> slice | None:
    """Return the intersection of the pieces, where None is all; it may be empty."""
    ends = [(piece.start, piece.stop) for piece in pieces if piece is not None]
    if not ends:
        return None
    start, stop = max(start for start, _ in ends), min(stop for _, stop in ends)
    return slice(start, max(stop, start))

"""Supports: the slices of dimensions outside of which an operator neither reads nor writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from nameddim import ND, NamedDimension

from ._roles import Role

if TYPE_CHECKING:
    from ._composite import Composite

Supports: TypeAlias = dict[NamedDimension, slice | None]
"""The support of each dimension; None where it is all, or not known."""


def clipped(start: int, stop: int, size: int) -> slice:
    """Return the part of ``start`` to ``stop`` that lies within ``size``; it may be empty.

    Examples
    --------
    >>> clipped(-2, 3, 5), clipped(7, 9, 5)
    (slice(0, 3, None), slice(5, 5, None))
    """
    first = min(max(start, 0), size)
    return slice(first, max(min(stop, size), first))


def is_empty(piece: slice) -> bool:
    """Whether an explicit slice has no elements."""
    return bool(piece.start >= piece.stop)


def hull(pieces: Iterable[slice]) -> slice:
    """Return the shortest slice that holds all of the pieces.

    Examples
    --------
    >>> hull([slice(4, 6), slice(1, 2), slice(9, 9)])
    slice(1, 6, None)
    """
    ends = [(piece.start, piece.stop) for piece in pieces if not is_empty(piece)]
    if not ends:
        return slice(0, 0)
    return slice(min(start for start, _ in ends), max(stop for _, stop in ends))


def common(pieces: Iterable[slice | None]) -> slice | None:
    """Return what is in every piece, None being all; it may be empty.

    Examples
    --------
    >>> common([slice(1, 4), None, slice(2, 6)]), common([slice(0, 2), slice(3, 4)])
    (slice(2, 4, None), slice(3, 3, None))
    """
    ends = [(piece.start, piece.stop) for piece in pieces if piece is not None]
    if not ends:
        return None
    start, stop = max(start for start, _ in ends), min(stop for _, stop in ends)
    return slice(start, max(stop, start))


def support_of_one(linop: Any, dim: NamedDimension | str) -> slice | None:
    """Return the support of one dimension, of an operator that finds those of all at once.

    It is the method :meth:`NamedLinop.support` of such an operator.
    """
    name = ND.infer(dim)
    support: slice | None = linop._supports([name])[name]
    return support


def supports_side_by_side(whole: Composite, dims: Iterable[NamedDimension]) -> Supports:
    """Return the supports of operators side by side, or of a sum: what holds that of each.

    None where one has no such dimension: it belongs to the tile that starts at 0, so none may
    begin later.
    """
    found: Supports = dict.fromkeys(dims)
    asked = [dim for dim in found if whole.role(dim) not in (None, Role.OPAQUE)]
    own = [linop._supports([dim for dim in asked if dim in linop.dims]) for linop in whole.linops]
    for dim in asked:
        pieces = [supports.get(dim) for supports in own]
        if None not in pieces:
            found[dim] = hull(piece for piece in pieces if piece is not None)
    return found

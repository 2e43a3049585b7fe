"""Tiles of operators: what ``split`` returns, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nameddim import NamedDimension

from ._linop import NamedLinop
from ._tile import SplitError, Window


def row_of_operand(
    linop: NamedLinop, dim: NamedDimension, pieces: Sequence[slice]
) -> Sequence[NamedLinop | None]:
    """Return the tiles of an operand of a sum, None where it adds nothing.

    The tiles of an inner dimension add up to the whole, so an operand without that dimension
    belongs to one tile alone: to the one that starts at 0.
    """
    if dim in linop.dims:
        return linop.tiles_along(dim, pieces)
    return [linop if piece.start == 0 else None for piece in pieces]


def tile_of(linop: Any, window: Window) -> NamedLinop:
    """Return what the operator's ``split`` makes of explicit slices, if it can be a tile.

    Operators that users write are asked for their parts too, and a part that is none would only be
    seen where it is applied, or not at all.

    Raises
    ------
    SplitError
        As :meth:`NamedLinop.split`; also if it returns no operator, or one between other dimensions
        or of other sizes.
    """
    tile = linop.split(linop, window)
    if not isinstance(tile, NamedLinop):
        raise SplitError(f"{linop.signature}: split must return a NamedLinop, got {tile!r}")
    found: Any = tile
    names, own = found.shape, linop.shape
    if names is not own and (names.ishape, names.oshape) != (own.ishape, own.oshape):
        raise SplitError(
            f"{linop.signature}: split must return an operator between the same dimensions, "
            f"got {found.signature}"
        )
    for dim, piece in window.items():
        if dim in own.dims and found.size(dim) not in (None, piece.stop - piece.start):
            raise SplitError(
                f"{linop.signature}: split must return an operator in which {dim} has the size "
                f"{piece.stop - piece.start} of {piece}, got {found.size(dim)}"
            )
    return found  # type: ignore[no-any-return]

"""Cutting an operator along several dimensions, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop, Window, tile_of
from nameddim import NamedDimension


def cut_along(
    linop: NamedLinop, pieces: Mapping[NamedDimension, Sequence[slice]]
) -> NDArray[np.object_]:
    """Return the tiles of ``linop`` between the slices of each dimension.

    A row of tiles is cut off along the first dimension, and then along the next, so that what a
    row has in common is cut once. A row that cannot be cut like the whole, of an operator whose
    tiles do not say how to split them again, is not used: there each tile is cut from the whole.

    Parameters
    ----------
    linop : NamedLinop
    pieces : mapping of dimension to sequence of slices
        One axis of the result for each.

    Raises
    ------
    SplitError
        If an operator cannot be cut there after all, or returns what cannot be its tile.
    """
    return grid_of(_tiles(linop, {}, list(pieces.items())), pieces)


def grid_of(
    values: Iterable[object], pieces: Mapping[NamedDimension, Sequence[slice]]
) -> NDArray[np.object_]:
    """Return an array of one value per tile, with one axis for each dimension of ``pieces``."""
    shape = [len(along) for along in pieces.values()]
    grid = np.empty(prod(shape), dtype=object)
    for position, value in enumerate(values):
        grid[position] = value
    return grid.reshape(shape)


def _tiles(
    source: NamedLinop, window: Window, rest: Sequence[tuple[NamedDimension, Sequence[slice]]]
) -> Iterator[NamedLinop]:
    """Yield what is within ``window`` of ``source``, cut along the rest."""
    if not rest:
        yield source
        return
    (dim, pieces), later = rest[0], rest[1:]
    if window:
        row = [tile_of(source, {**window, dim: piece}) for piece in pieces]
    else:
        row = source.tiles_along(dim, pieces)
    roles = {other: source.role(other) for other, _ in later}
    for piece, part in zip(pieces, row, strict=True):
        if all(part.role(other) is role for other, role in roles.items()):
            yield from _tiles(part, {}, later)
        else:
            yield from _tiles(source, {**window, dim: piece}, later)

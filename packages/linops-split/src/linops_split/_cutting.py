"""Cutting an operator along several dimensions into a table of parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop, Window
from linops_core.siblings import tile_of
from nameddim import NamedDimension

from ._narrowed import narrowed
from ._tiles import Tiles

Pieces: TypeAlias = Mapping[NamedDimension, Sequence[slice]]
"""The slices of each dimension that is cut."""


def cut_into_parts(linop: NamedLinop, pieces: Pieces) -> Tiles:
    """Return the table of the tiles of ``linop``, each narrowed to what it reads and writes."""
    found = []
    lengths = {dim: along[-1].stop for dim, along in pieces.items()}
    windows = product(*(along if len(along) > 1 else (None,) for along in pieces.values()))
    for tile, window in zip(tiles_between(linop, pieces), windows, strict=True):
        cut = zip(pieces, window, strict=True)
        part = narrowed(tile).within({dim: piece for dim, piece in cut if piece is not None})
        lengths |= {dim: linop.size(dim) for dim in part.window if dim not in lengths}
        found.append(part)
    return Tiles(linop.shape, found, lengths).without_zeros()


def grid_of(values: Iterable[object], pieces: Pieces) -> NDArray[np.object_]:
    """Return an array of one value per tile, with one axis for each dimension of ``pieces``."""
    shape = [len(along) for along in pieces.values()]
    grid = np.empty(prod(shape), dtype=object)
    for position, value in enumerate(values):
        grid[position] = value
    return grid.reshape(shape)


def tiles_between(linop: NamedLinop, pieces: Pieces) -> Iterator[NamedLinop]:
    """Yield the tiles of ``linop`` for all combinations of slices, the last dimension fastest.

    A row of tiles is cut along the first dimension, then along the next, so that the common parts
    of a row are cut once. If a row cannot be cut in the same way as the whole (an operator whose
    tiles do not define how to split them again), each of its tiles is cut from the whole.
    """
    return _tiles(linop, {}, [*pieces.items()])


def _tiles(
    source: NamedLinop, window: Window, rest: Sequence[tuple[NamedDimension, Sequence[slice]]]
) -> Iterator[NamedLinop]:
    """Yield the tiles of ``source`` within ``window``, cut along the remaining dimensions."""
    if not rest:
        yield source
        return
    (dim, pieces), later = rest[0], rest[1:]
    if window:
        row = [tile_of(source, {**window, dim: piece}) for piece in pieces]
    else:
        row = source.tiles_along(dim, pieces)
    if not later:
        yield from row
        return
    roles = {other: source.role(other) for other, _ in later}
    for piece, part in zip(pieces, row, strict=True):
        if all(part.role(other) is role for other, role in roles.items()):
            yield from _tiles(part, {}, later)
        else:
            yield from _tiles(source, {**window, dim: piece}, later)

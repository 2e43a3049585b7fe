"""Cutting an operator along several dimensions into a table of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop, Window, Zero
from linops_core.siblings import acts_as, tile_of
from nameddim import NamedDimension

from ._narrowed import narrowed
from ._tiles import Part, Tiles, vanishes

Pieces: TypeAlias = Mapping[NamedDimension, Sequence[slice]]
"""The slices of each dimension that is cut."""

Same: TypeAlias = Callable[[NamedLinop], NamedLinop]
"""Returns a tile that can stand for another one, so that it is cut and narrowed once."""

Inside: TypeAlias = Callable[[int, NamedLinop, Part, Window], Tiles]
"""Returns the table of a tile, given its number, the tile, the part to which it is narrowed, and
its slices of the whole."""


def cut_into_parts(
    linop: NamedLinop,
    pieces: Pieces,
    inside: Inside | None = None,
    same: Same = lambda tile: tile,
) -> Tiles:
    """Return the table of the tiles of ``linop``, each narrowed to what it reads and writes.

    ``inside`` cuts each tile again; by default it is one part. ``same`` is as in `tiles_between`.
    """
    parts, lengths = list[Part](), dict[NamedDimension, int]()
    of_tiles = dict[int, Part]()
    of_pieces = {dim: along[-1].stop for dim, along in pieces.items()}
    windows = product(*pieces.values())
    # One tile along a dimension needs no cut, and an empty one of unknown size has none.
    cut = {dim: along for dim, along in pieces.items() if len(along) > 1}
    for number, (tile, window) in enumerate(
        zip([*tiles_between(linop, cut, same)], windows, strict=True)
    ):
        cell = dict(zip(pieces, window, strict=True))
        part = of_tiles[id(tile)] = of_tiles.get(id(tile)) or narrowed(tile)
        if acts_as(part.linop, Zero) and not linop.is_complex_linear and not vanishes(tile):
            part = of_tiles[id(tile)] = Part(tile)  # its zeros have a dtype beside a real part
        outer = part.within({dim: p for dim, p in cell.items() if len(pieces[dim]) > 1}).window
        tiles = inside(number, tile, part, cell) if inside is not None else Tiles.of(part.linop)
        parts += [inner.within(outer) for inner in tiles.parts]
        sizes = {dim: of_pieces.get(dim, linop.size(dim)) for dim in outer}
        of_outer = {dim: length for dim, length in sizes.items() if length is not None}
        lengths = {**tiles.lengths, **lengths, **of_outer}
    table = Tiles(linop.shape, parts, lengths).without_zeros()
    # A Zero has the dtype of its input, and this operator may have another one.
    is_zero = all(acts_as(each, Zero) for each in table.linops)
    return Tiles.of(linop) if is_zero else table


def grid_of(values: Iterable[object], pieces: Pieces) -> NDArray[np.object_]:
    """Return an array of one value per tile, with one axis for each dimension of ``pieces``."""
    shape = [len(along) for along in pieces.values()]
    grid = np.empty(prod(shape), dtype=object)
    for position, value in enumerate(values):
        grid[position] = value
    return grid.reshape(shape)


def tiles_between(
    linop: NamedLinop, pieces: Pieces, same: Same = lambda tile: tile
) -> Iterator[NamedLinop]:
    """Yield the tiles of ``linop`` for all combinations of slices, the last dimension fastest.

    A row of tiles is cut along the first dimension, then along the next, so that the common parts
    of a row are cut once, and a tile that occurs several times in a row too. If a row cannot be cut
    in the same way as the whole (an operator whose tiles do not define how to split them again),
    each of its tiles is cut from the whole.
    """
    return _tiles(linop, {}, [*pieces.items()], same)


def _tiles(
    source: NamedLinop,
    window: Window,
    rest: Sequence[tuple[NamedDimension, Sequence[slice]]],
    same: Same,
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
    row = [same(part) for part in row]
    if not later:
        yield from row
        return
    roles = {other: source.role(other) for other, _ in later}
    by_number = dict[int, list[NamedLinop]]()
    for piece, part in zip(pieces, row, strict=True):
        if all(part.role(other) is role for other, role in roles.items()):
            if id(part) not in by_number:
                by_number[id(part)] = [*_tiles(part, {}, later, same)]
            yield from by_number[id(part)]
        else:
            yield from _tiles(source, {**window, dim: piece}, later, same)

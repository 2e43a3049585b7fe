"""An operator cut as batch specs say, before anything is sent: grids of tiles, one in another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from linops_core import NamedLinop, SplitError, Zero
from linops_split import (
    Narrowed,
    Tile,
    assemble,
    fuzzy_broadcast_to,
    narrowed,
    split_linop,
    tile_grid,
    tile_lengths,
)
from nameddim import NamedDimension

from .._devices._device_spec import DeviceSpec
from .._weights._remote import Remote
from ._batch_spec import BatchSpec
from ._batched import BatchedLinop


@dataclass
class Leaf:
    """A tile that is cut no further, and where it is to work."""

    linop: NamedLinop
    device: DeviceSpec

    def leaves(self) -> Iterator[Leaf]:
        """Yield itself."""
        yield self

    def devices(self) -> Iterator[torch.device]:
        """Yield where something is done."""
        yield self.device.device

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the tile for vectors on ``base``."""
        return _for_vectors_on(base, self.linop, self.device)


@dataclass
class Grid:
    """Tiles of one operator, and the device on which their outputs are put together."""

    cells: NDArray[np.object_]
    """Of Cell."""
    dims: tuple[NamedDimension, ...]
    lengths: dict[NamedDimension, list[int]]
    device: DeviceSpec
    max_in_flight: int

    def leaves(self) -> Iterator[Leaf]:
        """Yield the tiles that are cut no further."""
        for cell in self.cells.flat:
            yield from cast(Cell, cell).content.leaves()

    def devices(self) -> Iterator[torch.device]:
        """Yield where something is done."""
        yield self.device.device
        for cell in self.cells.flat:
            yield from cast(Cell, cell).content.devices()

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the operator of which these are the tiles, for vectors on ``base``."""
        linops = np.empty(self.cells.shape, dtype=object)
        for position in np.ndindex(self.cells.shape):
            linops[position] = cast(Cell, self.cells[position]).put_together(self.device)
        whole = assemble(linops, self.dims, lengths=self.lengths)
        if self.device.device == base.device:
            return whole
        batched = BatchedLinop(whole, self.device, self.max_in_flight)
        return _for_vectors_on(base, batched, self.device)


@dataclass
class Cell:
    """One place of a grid: what its tile reads and writes, and what that consists of."""

    window: Narrowed | None
    content: Leaf | Grid

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the tile for vectors on ``base``."""
        linop = self.content.put_together(base)
        return linop if self.window is None else self.window.around(linop)


def cut(
    linop: NamedLinop,
    specs: Sequence[BatchSpec],
    device: DeviceSpec,
    sizes: Mapping[NamedDimension, int],
    max_in_flight: int,
) -> Leaf | Grid:
    """Cut ``linop`` as the specs say, the first one first. No tensor is allocated or sent."""
    if not specs:
        return Leaf(linop, device)
    spec, *others = specs
    base = spec.base() or device
    grid = tile_grid(linop, spec.batch_sizes, sizes=sizes)
    linops, _, _ = split_linop(linop, spec.batch_sizes, sizes=sizes)
    devices = _devices_over(grid.shape, spec, base)
    cells = np.empty(grid.shape, dtype=object)
    # What one part of an operator knows of a dimension is true of the parts that do not.
    of_whole = {dim: size for dim in linop.dims if (size := linop.size(dim)) is not None} | {
        **sizes
    }
    for position in np.ndindex(grid.shape):
        wide = cast(NamedLinop, linops[position])
        tile = narrowed(wide)
        window, tile = (tile, tile.part) if isinstance(tile, Narrowed) else (None, tile)
        pieces = {dim: piece for dim, (_, piece) in cast(Tile, grid[position]).items()}
        if window is not None:
            pieces |= {**window.reads, **window.writes}
        known = {**of_whole, **{dim: piece.stop - piece.start for dim, piece in pieces.items()}}
        # Not of those that the tile knows: between its factors it may use a part of a dimension.
        of_tile = {
            dim: size
            for dim, size in known.items()
            if dim in tile.dims and tile.size(dim) is None and wide.size(dim) is None
        }
        # What is zero has nothing left to cut.
        specs_left = [] if isinstance(tile, Zero) else others
        for dim in (dim for later in specs_left for dim in later.batch_sizes):
            if dim in linop.dims and dim not in tile.dims:
                raise SplitError(
                    f"{linop.signature}: {dim} must be in every tile that a later BatchSpec cuts "
                    f"along it, got the tile {tile.signature} without it; cut {dim} in the same "
                    "BatchSpec or in an earlier one"
                )
        there = cast(DeviceSpec, devices[position])
        cells[position] = Cell(window, cut(tile, specs_left, there, of_tile, max_in_flight))
    return Grid(cells, tuple(spec.batch_sizes), tile_lengths(grid), base, max_in_flight)


def _devices_over(shape: tuple[int, ...], spec: BatchSpec, base: DeviceSpec) -> NDArray[np.object_]:
    """Return where each tile of a grid is to work."""
    wanted = spec.device_specs()
    if wanted is None:
        return np.full(shape, base, dtype=object)
    if wanted.ndim > len(shape):
        raise ValueError(
            f"BatchSpec: device_matrix must have at most one axis per dimension of "
            f"({', '.join(map(str, spec.batch_sizes))}), got shape {wanted.shape}"
        )
    return fuzzy_broadcast_to(wanted, shape)


def _for_vectors_on(base: DeviceSpec, linop: NamedLinop, device: DeviceSpec) -> NamedLinop:
    """Return ``linop``, which works on ``device``, for vectors on ``base``."""
    return linop if device.device == base.device else Remote(linop, device, base)

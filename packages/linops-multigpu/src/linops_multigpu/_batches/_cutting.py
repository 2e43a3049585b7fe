"""An operator cut as batch specs say, before anything is sent: one table of parts with devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop, SplitError, Zero
from linops_split import Part, Tile, Tiles, fuzzy_broadcast_to, narrowed, split_linop, tile_grid
from nameddim import NamedDimension

from .._devices._device_spec import DeviceSpec
from .._execution._device_tiles import DevicePair
from ._batch_spec import BatchSpec


def cut_over_devices(
    linop: NamedLinop,
    specs: Sequence[BatchSpec],
    base: DeviceSpec,
    sizes: Mapping[NamedDimension, int],
    device: DeviceSpec | None = None,
) -> Tiles:
    """Return the table of ``linop`` cut as the specs say, the first one first; nothing is sent.

    ``sizes`` are those that the operator does not know; ``device`` is where it works if no spec
    says so, the base by default.
    """
    device = base if device is None else device
    if not specs:
        place = None if device.device == base.device else DevicePair(device, base)
        return Tiles(linop.shape, [Part(linop, {}, place)], {})
    spec, *others = specs
    grid = tile_grid(linop, spec.batch_sizes, sizes=sizes)
    linops, _, _ = split_linop(linop, spec.batch_sizes, sizes=sizes)
    devices = _devices_over(grid.shape, spec, spec.base() or device)
    # What one part of an operator knows of a dimension is true of the parts that do not.
    of_whole = {dim: n for dim in linop.dims if (n := linop.size(dim)) is not None} | {**sizes}
    parts, lengths = list[Part](), dict[NamedDimension, int]()
    for position in np.ndindex(grid.shape):
        wide, cell = cast(NamedLinop, linops[position]), cast(Tile, grid[position])
        tile = narrowed(wide)
        pieces = {dim: piece for dim, (_, piece) in cell.items()} | dict(tile.window)
        known = of_whole | {dim: piece.stop - piece.start for dim, piece in pieces.items()}
        # Not of those that the tile knows: between its factors it may use a part of a dimension.
        of_tile = {
            dim: size
            for dim, size in known.items()
            if dim in tile.linop.dims and tile.linop.size(dim) is None and wide.size(dim) is None
        }
        # What is zero has nothing left to cut.
        specs_left = [] if isinstance(tile.linop, Zero) else others
        for dim in (dim for later in specs_left for dim in later.batch_sizes):
            if dim in linop.dims and dim not in tile.linop.dims:
                raise SplitError(
                    f"{linop.signature}: {dim} must be in every tile that a later BatchSpec cuts "
                    f"along it, got the tile {tile.linop.signature} without it; cut {dim} in the "
                    "same BatchSpec or in an earlier one"
                )
        there = cast(DeviceSpec, devices[position])
        inner = cut_over_devices(tile.linop, specs_left, base, of_tile, there)
        counts = zip(cell.items(), grid.shape, strict=True)
        outer = tile.within({dim: piece for (dim, (_, piece)), count in counts if count > 1}).window
        parts += [part.within(outer) for part in inner.parts]
        lengths = {**inner.lengths, **lengths, **{dim: of_whole[dim] for dim in outer}}
    return Tiles(linop.shape, parts, lengths).without_zeros()


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

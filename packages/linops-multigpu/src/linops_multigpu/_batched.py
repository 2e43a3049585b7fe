"""From an operator and batch specs to one operator that works on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linops_core import Chain, NamedLinop
from linops_split import assemble, fuzzy_broadcast_to, split_linop, tile_grid, tile_lengths
from nameddim import NamedDimension

from ._batch_spec import BatchSpec
from ._devices import as_device, probed
from ._placed import Placed, placed_together
from ._to_device import ToDevice


def create_batched_linop(
    linop: NamedLinop,
    batch_specs: BatchSpec | Sequence[BatchSpec],
    default_device: torch.device | str | None = None,
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile, on the devices of a spec.

    The operator is cut into tiles; each works on its device, to which its input is sent and
    from which its output returns; the outputs are put together on the base device. A device
    receives the bytes of the weights that its tiles read, once, however many of them share
    them; tiles on the device of the weights read the weights themselves. The operator is not
    changed, and its parameters are those of the result: what is written to them later is
    followed, and gradients reach them, from every device.

    With several specs the tiles of the first are cut again by the second, and so on: across
    devices first, then within each to save memory.

    Parameters
    ----------
    linop : NamedLinop
    batch_specs : BatchSpec or sequence of BatchSpec
    default_device : torch.device or str, optional
        The base device of a first spec that names none. Where the operator's tensors are by
        default, or the CPU if it has none.

    Returns
    -------
    NamedLinop
        From the base device to the base device.

    Raises
    ------
    SplitError
        If the operator cannot be cut so; see :func:`linops_split.split_linop`.
    ValueError
        If there is no spec, a device matrix does not fit its grid of tiles, or there is no such
        device. Nothing has been sent then.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(4.0), ("N",))
    >>> B = create_batched_linop(A, BatchSpec({"N": 1}, ["cpu", "cpu"]))
    >>> B(torch.ones(4))
    tensor([0., 1., 2., 3.])
    """
    specs = [batch_specs] if isinstance(batch_specs, BatchSpec) else list(batch_specs)
    if not specs:
        raise ValueError("create_batched_linop: there must be at least one BatchSpec, got none")
    base = specs[0].base_device or as_device(default_device or _device_of(linop))
    plan = _planned(linop, specs, base)
    for device in {base, *plan.devices()}:
        probed(device)
    _place(plan.tiles())
    return plan.built(base)


@dataclass
class _Tile:
    """A tile that is cut no further, and where it is to work."""

    linop: NamedLinop
    device: torch.device

    def tiles(self) -> Iterator[_Tile]:
        yield self

    def devices(self) -> Iterator[torch.device]:
        yield self.device

    def built(self, base: torch.device) -> NamedLinop:
        return _between(self.linop, self.device, base)


@dataclass
class _Grid:
    """Tiles of one operator, and the device on which their outputs are put together."""

    parts: NDArray[np.object_]
    dims: tuple[NamedDimension, ...]
    lengths: dict[NamedDimension, list[int]]
    device: torch.device

    def tiles(self) -> Iterator[_Tile]:
        for part in self.parts.flat:
            yield from cast(_Tile | _Grid, part).tiles()

    def devices(self) -> Iterator[torch.device]:
        yield self.device
        for part in self.parts.flat:
            yield from cast(_Tile | _Grid, part).devices()

    def built(self, base: torch.device) -> NamedLinop:
        linops = np.empty(self.parts.shape, dtype=object)
        for position in np.ndindex(self.parts.shape):
            linops[position] = cast(_Tile | _Grid, self.parts[position]).built(self.device)
        return _between(assemble(linops, self.dims, lengths=self.lengths), self.device, base)


def _planned(linop: NamedLinop, specs: Sequence[BatchSpec], base: torch.device) -> _Tile | _Grid:
    """Cut ``linop`` as the specs say, the first one first. No tensor is allocated or sent."""
    if not specs:
        return _Tile(linop, base)
    spec, *others = specs
    base = spec.base_device or base
    grid = tile_grid(linop, spec.batch_sizes)
    linops, _, _ = split_linop(linop, spec.batch_sizes)
    wanted = spec.devices()
    if wanted is not None and wanted.ndim > grid.ndim:
        raise ValueError(
            f"BatchSpec: device_matrix must have at most one axis per dimension of "
            f"({', '.join(map(str, spec.batch_sizes))}), got shape {wanted.shape}"
        )
    devices = fuzzy_broadcast_to(
        np.array(base, dtype=object) if wanted is None else wanted, grid.shape
    )
    parts = np.empty(grid.shape, dtype=object)
    for position in np.ndindex(grid.shape):
        tile, device = cast(NamedLinop, linops[position]), cast(torch.device, devices[position])
        parts[position] = _planned(tile, others, device)
    return _Grid(parts, tuple(spec.batch_sizes), tile_lengths(grid), base)


def _place(tiles: Iterable[_Tile]) -> None:
    """Give every tile whose weights are elsewhere a copy of what it reads on its device.

    All tiles of a device are sent together, so that what they share is sent once.
    """
    elsewhere: dict[torch.device, list[_Tile]] = {}
    for tile in tiles:
        if any(tensor.device != tile.device for tensor in _all_tensors(tile.linop)):
            elsewhere.setdefault(tile.device, []).append(tile)
    for tile in (tile for members in elsewhere.values() for tile in members):
        if any(isinstance(part, (Placed, ToDevice)) for part in tile.linop.modules()):
            raise ValueError(
                f"create_batched_linop: an operator must be placed once, with all specs in one "
                f"list, got one that moves between devices by itself: {tile.linop.signature}"
            )
    for device, members in elsewhere.items():
        placed = placed_together([tile.linop for tile in members], device)
        for tile, linop in zip(members, placed, strict=True):
            tile.linop = linop


def _between(linop: NamedLinop, device: torch.device, base: torch.device) -> NamedLinop:
    """Return ``linop``, which works on ``device``, as an operator on vectors on ``base``."""
    if device == base:
        return linop
    there = ToDevice(base, device, linop.ishape)
    back = ToDevice(device, base, linop.oshape)
    return Chain(there, linop, back)


def _all_tensors(linop: NamedLinop) -> list[Tensor]:
    return [*linop.parameters(), *linop.buffers()]


def _device_of(linop: NamedLinop) -> torch.device:
    devices = {tensor.device for tensor in _all_tensors(linop)}
    if len(devices) > 1:
        raise ValueError(
            f"create_batched_linop: the base device must be given for an operator on several "
            f"devices, got {sorted(map(str, devices))}"
        )
    return devices.pop() if devices else torch.device("cpu")

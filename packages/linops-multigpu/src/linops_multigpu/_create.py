"""From an operator and batch specs to one operator that works on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linops_core import NamedLinop, Zero
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
from nameddim import ND, NamedDimension

from ._batch_spec import BatchSpec
from ._batched import BatchedLinop
from ._device_spec import DeviceSpec
from ._devices import probed
from ._placed import Placed, placed_together
from ._remote import Remote
from ._to_device import ToDevice


def create_batched_linop(
    linop: NamedLinop,
    batch_specs: BatchSpec | Sequence[BatchSpec],
    default_device: torch.device | str | None = None,
    *,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    max_in_flight: int = 2,
    tqdm_kwargs: Mapping[str, object] | None = None,
) -> BatchedLinop:
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

    sizes : mapping of dimension to int, optional
        Of dimensions to cut that the operator does not know, such as the batch of an FFT.
    max_in_flight : int
        How many inputs of tiles, and how many of their results, are on each device at a time,
        beside those that later tiles read too and sums that are not complete: one that computes
        and one on its way by default.
    tqdm_kwargs : mapping, optional
        Options of a progress bar for each call, as in ``{"leave": False}``: over what is sent,
        computed and collected, as it is issued. None is shown by default, or while autograd
        follows a weight.

    Returns
    -------
    BatchedLinop
        From the base device to the base device.

    Raises
    ------
    TypeError
        If ``linop`` is no operator, or what comes with it are no specs.
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
    if not isinstance(linop, NamedLinop):
        raise TypeError(f"create_batched_linop: linop must be a NamedLinop, got {type(linop)}")
    if not isinstance(batch_specs, (BatchSpec, Sequence)):
        raise TypeError(
            f"create_batched_linop: batch_specs must be BatchSpecs, got {type(batch_specs)}"
        )
    specs = [batch_specs] if isinstance(batch_specs, BatchSpec) else list(batch_specs)
    for spec in specs:
        if not isinstance(spec, BatchSpec):
            raise TypeError(
                f"create_batched_linop: batch_specs must be BatchSpecs, got {type(spec)}"
            )
    if not specs:
        raise ValueError("create_batched_linop: there must be at least one BatchSpec, got none")
    if type(max_in_flight) is not int or max_in_flight < 1:
        raise ValueError(
            f"create_batched_linop: max_in_flight must be a positive integer, got {max_in_flight!r}"
        )
    base = _base_of(specs[0])
    if base is None:
        base = DeviceSpec(_device_of(linop) if default_device is None else default_device)
    if not isinstance(sizes, (Mapping, type(None))):
        raise TypeError(
            f"create_batched_linop: sizes must be a mapping of dimension to size, got {sizes!r}"
        )
    known = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    whole = _cut(linop, specs, base, known, max_in_flight)
    for device in {base.device, *whole.devices()}:
        probed(device)
    _place(whole.tiles())
    return BatchedLinop(whole.put_together(base), base, max_in_flight, known, tqdm_kwargs)


@dataclass
class _Tile:
    """A tile that is cut no further, and where it is to work."""

    linop: NamedLinop
    device: DeviceSpec

    def tiles(self) -> Iterator[_Tile]:
        """Yield the tile."""
        yield self

    def devices(self) -> Iterator[torch.device]:
        """Yield where something is done."""
        yield self.device.device

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the tile for vectors on ``base``."""
        return _for_vectors_on(base, self.linop, self.device)


@dataclass
class _Grid:
    """Tiles of one operator, and the device on which their outputs are put together."""

    parts: NDArray[np.object_]
    """Of _Part."""
    dims: tuple[NamedDimension, ...]
    lengths: dict[NamedDimension, list[int]]
    device: DeviceSpec
    max_in_flight: int

    def tiles(self) -> Iterator[_Tile]:
        """Yield the tiles that are cut no further."""
        for part in self.parts.flat:
            yield from cast(_Part, part).content.tiles()

    def devices(self) -> Iterator[torch.device]:
        """Yield where something is done."""
        yield self.device.device
        for part in self.parts.flat:
            yield from cast(_Part, part).content.devices()

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the operator of which these are the tiles, for vectors on ``base``."""
        linops = np.empty(self.parts.shape, dtype=object)
        for position in np.ndindex(self.parts.shape):
            linops[position] = cast(_Part, self.parts[position]).put_together(self.device)
        whole = assemble(linops, self.dims, lengths=self.lengths)
        if self.device.device == base.device:
            return whole
        batched = BatchedLinop(whole, self.device, self.max_in_flight)
        return _for_vectors_on(base, batched, self.device)


@dataclass
class _Part:
    """What one tile of a grid reads and writes, and what it consists of."""

    window: Narrowed | None
    content: _Tile | _Grid

    def put_together(self, base: DeviceSpec) -> NamedLinop:
        """Return the tile for vectors on ``base``."""
        linop = self.content.put_together(base)
        return linop if self.window is None else self.window.around(linop)


def _cut(
    linop: NamedLinop,
    specs: Sequence[BatchSpec],
    device: DeviceSpec,
    sizes: Mapping[NamedDimension, int],
    max_in_flight: int,
) -> _Tile | _Grid:
    """Cut ``linop`` as the specs say, the first one first. No tensor is allocated or sent."""
    if not specs:
        return _Tile(linop, device)
    spec, *others = specs
    base = _base_of(spec) or device
    grid = tile_grid(linop, spec.batch_sizes, sizes=sizes)
    linops, _, _ = split_linop(linop, spec.batch_sizes, sizes=sizes)
    wanted = spec.device_specs()
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
        tile = narrowed(cast(NamedLinop, linops[position]))
        window, tile = (tile, tile.part) if isinstance(tile, Narrowed) else (None, tile)
        there = cast(DeviceSpec, devices[position])
        cut = cast(Tile, grid[position])
        known = {**sizes, **{dim: piece.stop - piece.start for dim, (_, piece) in cut.items()}}
        of_tile = {dim: size for dim, size in known.items() if dim in tile.dims}
        # What is zero has nothing left to cut.
        specs_left = [] if isinstance(tile, Zero) else others
        content = _cut(tile, specs_left, there, of_tile, max_in_flight)
        parts[position] = _Part(window, content)
    return _Grid(parts, tuple(spec.batch_sizes), tile_lengths(grid), base, max_in_flight)


def _base_of(spec: BatchSpec) -> DeviceSpec | None:
    if spec.base_device is None:
        return None
    return DeviceSpec(spec.base_device, spec.base_stream, spec.transfer_stream)


def _for_vectors_on(base: DeviceSpec, linop: NamedLinop, device: DeviceSpec) -> NamedLinop:
    """Return ``linop``, which works on ``device``, for vectors on ``base``."""
    return linop if device.device == base.device else Remote(linop, device, base)


def _place(tiles: Iterable[_Tile]) -> None:
    """Give every tile whose weights are elsewhere a copy of what it reads on its device.

    All tiles of a device are sent together, so that what they share is sent once.
    """
    elsewhere: dict[torch.device, list[_Tile]] = {}
    for tile in tiles:
        device = tile.device.device
        if any(tensor.device != device for tensor in _all_tensors(tile.linop)):
            elsewhere.setdefault(device, []).append(tile)
    for tile in (tile for members in elsewhere.values() for tile in members):
        if any(isinstance(part, (Placed, Remote, ToDevice)) for part in tile.linop.modules()):
            raise ValueError(
                f"create_batched_linop: an operator must be placed once, with all specs in one "
                f"list, got one that moves between devices by itself: {tile.linop.signature}"
            )
    for device, members in elsewhere.items():
        placed = placed_together([tile.linop for tile in members], device)
        for tile, linop in zip(members, placed, strict=True):
            tile.linop = linop


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

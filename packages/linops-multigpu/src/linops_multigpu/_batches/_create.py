"""create_batched_linop: from an operator and batch specs to a batched operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from linops_core import Composite, Identity, NamedLinop, Window, Zero
from linops_core.siblings import acts_as, check_integer, submodules_of
from linops_split import Part, Tiled, Tiles, fuzzy_broadcast_to
from linops_split.siblings import cut_into_parts, slices_along
from nameddim import ND, NamedDimension

from .._devices._device_spec import DeviceSpec, as_device, existing_device
from .._devices._to_device import ToDevice
from .._execution._device_tiles import DevicePair, DeviceTiles
from .._weights._device_replica import DeviceReplica, replicated_together
from ._batch_spec import BatchSpec
from ._batched_linop import BatchedLinop


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

    Each tile works on its device. Its input is sent there, and its output is sent back to the base
    device. A device receives the weights that its tiles read, each byte once. The operator itself
    does not change, and the result has the same parameters: later writes to them are detected, and
    gradients reach them from every device. The backward pass computes each tile again, so a
    training step needs the workspace of the tiles in flight. Your own operators must return the
    same result when they are called again with the same input.

    The operator may be batched already, or contain :class:`ToDevice`. If a spec places a tile of
    such an operator on a device that does not hold its weights, the whole tile works on that
    device.

    Parameters
    ----------
    linop : NamedLinop
    batch_specs : BatchSpec or sequence of BatchSpec
        How to cut. The second spec cuts the tiles of the first again, and so on: first across
        devices, then on each device to save memory.
    default_device : torch.device or str, optional
        The base device, if the first spec names none. Default: the device of the operator's
        tensors, or the CPU if it has none.
    sizes : mapping of dimension to int, optional
        Sizes of dimensions to cut that the operator does not know, such as the batch of an FFT.
    max_in_flight : int
        The number of tile inputs, and of results, on each device at a time. Inputs that later tiles
        also read and incomplete sums come in addition.
    tqdm_kwargs : mapping, optional
        Options for a progress bar over the steps of each call, as in ``{"leave": False}``. By
        default there is no bar.

    Raises
    ------
    TypeError
        If ``linop`` is not an operator, or another argument has a wrong type.
    SplitError
        If the operator cannot be cut in this way; see :func:`linops_split.split_linop`.
    ValueError
        If there is no spec, a device matrix does not fit its grid of tiles, a device does not
        exist, or the operator is on several devices and no base is named. Nothing has been sent to
        a device then.

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
    specs = list(batch_specs) if isinstance(batch_specs, Sequence) else [batch_specs]
    for spec in specs:
        if not isinstance(spec, BatchSpec):
            raise TypeError(
                f"create_batched_linop: batch_specs must be BatchSpecs, got {type(spec)}"
            )
    if not specs:
        raise ValueError("create_batched_linop: there must be at least one BatchSpec, got none")
    check_integer("create_batched_linop", "max_in_flight", max_in_flight, 1)
    if not isinstance(sizes, (Mapping, type(None))):
        raise TypeError(
            f"create_batched_linop: sizes must be a mapping of dimension to size, got {sizes!r}"
        )
    base = specs[0].base()
    if base is None:
        bases = _devices_of(linop) if default_device is None else {as_device(default_device)}
        if len(bases) > 1:
            raise ValueError(
                "create_batched_linop: the base device must be given for an operator on several "
                f"devices, got {sorted(map(str, bases))}"
            )
        base = DeviceSpec(bases.pop() if bases else "cpu")
    lengths = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    tiles = _cut(linop, specs, base, lengths, base)
    named = {base.device, *(spec.base_device or base.device for spec in specs)}
    for spec in specs:
        if (devices := spec.devices()) is not None:
            named |= {*devices.flat}
    for device in named:
        existing_device(device)
    placed = _placed(tiles, base)
    batched = BatchedLinop(placed, base, max_in_flight, lengths, tqdm_kwargs, whole=linop)
    return cast(BatchedLinop, batched.as_endomorphism()) if linop.is_endomorphism else batched


def _cut(
    linop: NamedLinop,
    specs: Sequence[BatchSpec],
    base: DeviceSpec,
    sizes: Mapping[NamedDimension, int],
    device: DeviceSpec,
    elsewhere: Set[NamedDimension] = frozenset(),
) -> Tiles:
    """Return the table of ``linop`` cut by the specs; without a device matrix, on ``device``.

    Along a dimension that is only ``elsewhere``, inside of other tiles, there is one tile.
    """
    if not specs:
        pair = None if device.device == base.device else DevicePair(device, base)
        return Tiles.of(linop, pair)
    spec, *others = specs
    has = {dim: dim in linop.dims or dim not in elsewhere for dim in spec.batch_sizes}
    batch_sizes = {dim: size for dim, size in spec.batch_sizes.items() if has[dim]}
    pieces = slices_along(linop, batch_sizes, sizes)
    grid = [len(pieces[dim]) if is_cut else 1 for dim, is_cut in has.items()]
    devices = _devices_over(grid, spec, spec.base() or device)
    # A size that one part of the operator knows is also the size for parts that do not know it.
    of_whole = {dim: n for dim in linop.dims if (n := linop.size(dim)) is not None} | {**sizes}

    def inside(number: int, wide: NamedLinop, part: Part, cell: Window) -> Tiles:
        tile = part.linop
        cut = {**cell, **part.window}
        lengths = of_whole | {dim: piece.stop - piece.start for dim, piece in cut.items()}
        # Not for sizes that the tile knows: it may use a part of a dimension between its factors.
        of_tile = {
            dim: size
            for dim, size in lengths.items()
            if dim in tile.dims and tile.size(dim) is None and wide.size(dim) is None
        }
        # A zero tile is not cut further.
        specs_left = [] if acts_as(tile, Zero) else others
        tile_device = cast(DeviceSpec, devices.flat[number])
        return _cut(tile, specs_left, base, of_tile, tile_device, elsewhere | linop.dims)

    return cut_into_parts(linop, pieces, inside)


def _devices_over(shape: Sequence[int], spec: BatchSpec, base: DeviceSpec) -> NDArray[np.object_]:
    """Return the device of each tile of a grid."""
    wanted = spec.device_specs()
    if wanted is None:
        wanted = np.array(base, dtype=object)
    if wanted.ndim > len(shape):
        raise ValueError(
            f"BatchSpec: device_matrix must have at most one axis per dimension of "
            f"({', '.join(map(str, spec.batch_sizes))}), got shape {wanted.shape}"
        )
    return fuzzy_broadcast_to(wanted, shape)


def _placed(tiles: Tiles, base: DeviceSpec) -> Tiles:
    """Return the table in which parts with weights elsewhere have copies on their devices."""
    linops = [part.linop for part in tiles.parts]
    elsewhere: dict[torch.device, list[int]] = {}
    for number, device in enumerate(DeviceTiles(tiles, base).devices):
        if _devices_of(linops[number]) - {device}:
            elsewhere.setdefault(device, []).append(number)
            linops[number] = _in_one_place(linops[number])
    for device, members in elsewhere.items():  # together, so that shared weights are sent once
        copies = replicated_together([linops[number] for number in members], device)
        for number, linop in zip(members, copies, strict=True):
            linops[number] = linop
    linops_in_order = iter(linops)
    return tiles.mapped(lambda _: next(linops_in_order))


def _in_one_place(linop: NamedLinop) -> NamedLinop:
    """Return the operator without moves between devices, so that it can be placed as a whole."""
    moving = DeviceReplica, BatchedLinop, ToDevice
    if not any(isinstance(module, moving) for module in submodules_of(linop)):
        return linop
    if isinstance(linop, DeviceReplica):
        return _in_one_place(linop.source)
    if isinstance(linop, ToDevice):
        return Identity(linop.ishape)
    if isinstance(linop, Tiled):
        parts = [Part(_in_one_place(part.linop), part.window) for part in linop.tiles.parts]
        return Tiled(Tiles(linop.shape, parts, linop.tiles.lengths))
    if isinstance(linop, Composite):
        return linop.with_operands(map(_in_one_place, linop.linops), linop.shape)
    raise ValueError(
        f"create_batched_linop: {linop.signature} moves data between devices inside an operator "
        "that is not a composition, so it cannot work on another device; pass the operator from "
        "before it was placed, with all specs in one list"
    )


def _devices_of(linop: NamedLinop) -> set[torch.device]:
    return {tensor.device for tensor in (*linop.parameters(), *linop.buffers())}

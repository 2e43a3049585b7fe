"""Copies that stay on a device, so that later tensors can share memory with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._traverse import Found, path_text
from .._views._address import view_of
from .._views._footprint import Footprint, footprint
from .._views._view import View
from ._buffers import Buffer, new_buffers
from ._plan import Group, Piece, plan_of
from ._spans import Pack

_HINT = "(register all modules before the first of them is placed)"
_start = attrgetter("span.start")


class Region:
    """Memory on a device that holds copies of bytes of storages. It does not keep these alive."""

    def __init__(
        self, group: Group, device: torch.device, pack: Pack, non_blocking: bool = False
    ) -> None:
        self.span = group._replace(pieces=[])
        self.device = device
        self.buffers: list[Buffer] = []
        self.buffer_of: dict[View, Buffer] = {}  # for the views whose bytes were copied
        self.sources: dict[int, StorageWeakRef] = {}  # the weak references reserve the identities
        self._pack: Pack = pack
        self._non_blocking = non_blocking
        self._copy(group.pieces)

    def missing(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces of which not all bytes were copied."""
        return [piece for piece in pieces if self._buffer(piece) is None]

    def views(self, pieces: Iterable[Piece]) -> dict[int, torch.Tensor]:
        """Plain tensors for pieces, by the ids of their tensors; no piece may be missing."""
        return {
            id(piece.tensor): buffer.part.view(piece, buffer.data)
            for piece in pieces
            if (buffer := self._buffer(piece)) is not None
        }

    def with_pieces(self, pieces: Sequence[Piece]) -> Region:
        """A region with the same memory, and more memory for pieces that share no byte with it."""
        made = copy(self)
        made.buffers, made.buffer_of = self.buffers.copy(), self.buffer_of.copy()
        made.sources = self.sources.copy()
        made._copy(pieces)
        return made

    def know(self, pieces: Iterable[Piece]) -> None:
        """Note the storages of some pieces as sources."""
        for piece in pieces:
            storage = piece.tensor.untyped_storage()
            if storage._cdata not in self.sources:
                self.sources[storage._cdata] = StorageWeakRef(storage)

    def shares_memory_with(self, piece: Piece) -> bool:
        """Whether a piece lies in another storage that shares memory with the storages here."""
        start, stop = piece.view.storage_span
        is_other = piece.tensor.untyped_storage()._cdata not in self.sources
        return is_other and start < self.span.stop and self.span.start < stop

    def is_alive(self) -> bool:
        """Whether a source storage still exists, so that the source addresses are still valid."""
        return not all(source.expired() for source in self.sources.values())

    def _buffer(self, piece: Piece) -> Buffer | None:
        buffer = self.buffer_of.get(piece.view)
        if buffer is None:
            buffer = next((buffer for buffer in self.buffers if buffer.part.holds(piece)), None)
        return buffer

    def _copy(self, pieces: Sequence[Piece]) -> None:
        group = self.span._replace(pieces=list(pieces))
        made = new_buffers(group, self.device, self._pack, non_blocking=self._non_blocking)
        for buffer in made:
            self.buffers.append(buffer)
            self.buffer_of |= dict.fromkeys([piece.view for piece in buffer.part.pieces], buffer)
            buffer.part.pieces.clear()  # they would keep the sources alive
        self.know(pieces)


class Regions:
    """A collection of regions, found by the identities or addresses of their source storages."""

    def __init__(self) -> None:
        self.by_storage: dict[object, Region] = {}
        self._ascending: dict[Hashable, list[Region]] = {}

    def copy(self) -> Regions:
        """A copy with the same regions. Regions added to the copy are not added here."""
        made = Regions()
        made.by_storage = self.by_storage.copy()
        made._ascending = {space: regions.copy() for space, regions in self._ascending.items()}
        return made

    def meeting(self, group: Group) -> Region | None:
        """A region that has source addresses in common with a group. Dead regions are deleted."""
        ascending = self._ascending.get(group.space, [])
        where = bisect_left(ascending, group.stop, key=_start)
        while where and ascending[where - 1].span.stop > group.start:
            where -= 1
            if ascending[where].is_alive():
                return ascending[where]
            del ascending[where]
        return None

    def put(self, region: Region, instead_of: Region | None = None) -> None:
        """Add a region that meets no other region, or replace `instead_of` by it."""
        ascending = self._ascending.setdefault(region.span.space, [])
        if instead_of is None:
            insort(ascending, region, key=_start)
        else:
            ascending[ascending.index(instead_of)] = region
        self.by_storage.update(dict.fromkeys(region.sources, region))

    def remove(self, region: Region) -> None:
        """Forget a region."""
        self._ascending[region.span.space].remove(region)
        for storage in region.sources:
            self.by_storage.pop(storage, None)


class DeviceMemory:
    """Memory placed on one device. A call changes a copy, which replaces it at the end."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.regions = Regions()
        self.copies: dict[int, Copied] = {}  # by the id of the source
        self.counters = Counters()

    def copy(self) -> DeviceMemory:
        """A copy. Changes of the copy do not change this object."""
        made = DeviceMemory(self.device)
        made.regions, made.copies = self.regions.copy(), self.copies.copy()
        made.counters = self.counters.copy()
        return made

    def place(
        self, group: Group, registered: Mapping[int, Group], pack: Pack, non_blocking: bool
    ) -> dict[int, torch.Tensor]:
        """Plain tensors on the device for all pieces of a group, by their ids.

        The new memory has room for all `registered` tensors, given by their storages. Raises
        `StorageError` if a piece overlaps placed memory only in part, or through a storage that
        was not known when the memory was placed.
        """
        known = (self.regions.by_storage.get(storage) for storage in group.storages)
        region = next((region for region in known if region is not None), None)
        if region is None:
            # Memory made only now (for tensors without memory of their own) is not registered.
            group_there = registered.get(group.storages[0], group)
            self._check_unknown(group_there)
            region = Region(group_there, self.device, pack, non_blocking)
            self.regions.put(region)
        missing = region.missing(group.pieces)
        if missing:
            self._check_apart(region, missing)
            wider = region.with_pieces(missing)
            self.regions.put(wider, instead_of=region)
            region = wider
        return region.views(group.pieces)

    def _check_unknown(self, group: Group) -> None:
        region = self.regions.meeting(group)
        if region is None:
            return
        piece = next(piece for piece in group.pieces if region.shares_memory_with(piece))
        raise StorageError(
            f"{path_text(piece.path)}: storages that share memory must be known before one of "
            f"them is placed, got one that shares memory with a placed one on {self.device} {_HINT}"
        )

    def _check_apart(self, region: Region, pieces: Sequence[Piece]) -> None:
        layouts = [view.layout() for view in region.buffer_of]
        placed = Footprint(region.span.space, [layout for layout in layouts if layout is not None])
        for piece in pieces:
            if not placed.isdisjoint(footprint(piece.view)):
                raise StorageError(
                    f"{path_text(piece.path)}: a view must lie inside or outside of the memory "
                    f"placed on {self.device} before, got one that overlaps it in part {_HINT}"
                )


class Copied(NamedTuple):
    """A copy, its source (kept alive so that its id stays valid), and the properties then."""

    source: torch.Tensor
    copy: torch.Tensor
    properties: list[object]


def properties_of(source: torch.Tensor) -> list[object]:
    """Properties of a tensor and its gradients that a copy keeps, except values and attributes."""
    properties: list[object] = []
    tensor: torch.Tensor | None = source
    while tensor is not None:
        properties += [type(tensor), tensor.requires_grad, tensor.device, tensor.dtype]
        for part, view in _parts_of(tensor):
            properties += [part.dtype, StorageWeakRef(part.untyped_storage()), view]
        tensor = tensor.grad if tensor.is_leaf else None
    return properties


def _parts_of(tensor: torch.Tensor) -> list[tuple[torch.Tensor, View]]:
    """The strided tensors that a tensor is made of, with their views."""
    # Not `with suppress(TypeError)`: if an interrupt arrives where such a block ends with an error,
    # Python 3.11 keeps the frames alive, and with them all that was copied.
    try:
        return [(tensor, view_of(tensor))]
    except TypeError:
        pieces = plan_of([Found(tensor, None)], detach=True).pieces
        return [(piece.tensor, piece.view) for piece in pieces]

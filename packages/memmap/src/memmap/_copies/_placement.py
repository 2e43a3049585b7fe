"""Copies that stay on a device, so that later tensors can share memory with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._traverse import FoundTensor, Path, path_text
from .._views._footprint import Footprint, footprint
from .._views._layout import run_layout
from .._views._layout_index import LayoutIndex
from .._views._view import View
from ._buffers import ChunkBuffer, new_buffers
from ._plan import Group, Piece, copy_plan
from ._spans import Pack

_HINT = "(register all modules before the first of them is placed)"


class Region:
    """Memory on a device that holds copies of bytes of storages. It does not keep these alive."""

    def __init__(
        self, group: Group, device: torch.device, pack: Pack, non_blocking: bool = False
    ) -> None:
        self.span = group._replace(pieces=[])
        self.device = device
        self.buffers: list[ChunkBuffer] = []
        self.buffer_of: dict[View, ChunkBuffer] = {}  # for the views whose bytes were copied
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
            id(piece.tensor): buffer.chunk.view(piece, buffer.data)
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

    def _buffer(self, piece: Piece) -> ChunkBuffer | None:
        buffer = self.buffer_of.get(piece.view)
        if buffer is None:
            buffer = next((buffer for buffer in self.buffers if buffer.chunk.holds(piece)), None)
        return buffer

    def _copy(self, pieces: Sequence[Piece]) -> None:
        group = self.span._replace(pieces=list(pieces))
        made = new_buffers(group, self.device, self._pack, non_blocking=self._non_blocking)
        for buffer in made:
            self.buffers.append(buffer)
            self.buffer_of |= dict.fromkeys([piece.view for piece in buffer.chunk.pieces], buffer)
            buffer.chunk.pieces.clear()  # they would keep the sources alive
        self.know(pieces)


class Regions:
    """A collection of regions, found by the identities or addresses of their source storages."""

    def __init__(self, regions: Iterable[Region] = ()) -> None:
        self.by_storage: dict[object, Region] = {}
        self._index: LayoutIndex[Region] = LayoutIndex()
        for region in regions:
            self.put(region)

    def __iter__(self) -> Iterator[Region]:
        return iter({id(region): region for region in self.by_storage.values()}.values())

    def meeting(self, group: Group) -> Region | None:
        """A region that has source addresses in common with a group. Dead regions are deleted."""
        for region in self._index.may_meet(group.space, run_layout(group.start, group.stop)):
            if region.is_alive():
                return region
            self.remove(region)
        return None

    def put(self, region: Region) -> None:
        """Add a region that meets no other region."""
        space, start, stop, _ = region.span
        self._index.add(space, run_layout(start, stop), region)
        self.by_storage.update(dict.fromkeys(region.sources, region))

    def remove(self, region: Region) -> None:
        """Forget a region."""
        space, start, stop, _ = region.span
        self._index.discard(space, run_layout(start, stop), region)
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
        made.regions, made.copies = Regions(self.regions), self.copies.copy()
        made.counters = self.counters.copy()
        return made

    def fill(
        self, group: Group, room: Callable[[Group], Group], pack: Pack, non_blocking: bool
    ) -> dict[int, torch.Tensor]:
        """Plain tensors on the device for all pieces of a group, by their ids.

        New memory has room for all tensors of the larger group that `room` gives. Raises
        `StorageError` if a piece overlaps placed memory only in part, or through a storage that
        was not known when the memory was placed.
        """
        regions = (self.regions.by_storage.get(storage) for storage in group.storages)
        region = next((region for region in regions if region is not None), None)
        if region is None:
            wider_group = room(group)
            self._check_unknown(wider_group)
            region = Region(wider_group, self.device, pack, non_blocking)
            self.regions.put(region)
        missing = region.missing(group.pieces)
        if missing:
            self._check_apart(region, missing)
            wider = region.with_pieces(missing)
            self.regions.remove(region)
            self.regions.put(wider)
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


def properties_of(source: torch.Tensor, path: Path = None) -> list[object]:
    """Properties of a tensor and its gradients that a copy keeps, except values and attributes."""
    properties: list[object] = []
    tensor: torch.Tensor | None = source
    while tensor is not None:
        properties += [type(tensor), tensor.requires_grad, tensor.device, tensor.dtype]
        properties.append(tensor.grad_dtype if tensor.is_leaf else None)
        for piece in copy_plan([FoundTensor(tensor, path)], detach=True).pieces:
            part = piece.tensor
            properties += [part.dtype, StorageWeakRef(part.untyped_storage()), piece.view]
        tensor = tensor.grad if tensor.is_leaf else None
    return properties

"""Copies of storages that last, so that what shares memory with them is related to the copy."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from operator import attrgetter

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._views._view import View
from ._buffers import Buffer, new_buffers
from ._plan import Group, Piece
from ._spans import Pack

_start = attrgetter("span.start")


class Region:
    """Memory on a device that stands for some bytes of storages, which it does not keep alive."""

    def __init__(
        self, group: Group, device: torch.device, pack: Pack, non_blocking: bool = False
    ) -> None:
        self.span = group._replace(pieces=[])
        self.device = device
        self.buffers: list[Buffer] = []
        self.buffer_of: dict[View, Buffer] = {}  # for the views for which bytes were copied
        self.sources: dict[int, StorageWeakRef] = {}  # by identity, which no other one gets then
        self._pack: Pack = pack
        self._non_blocking = non_blocking
        self._copy(group.pieces)

    def missing(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Those of some pieces of which not all bytes were copied."""
        return [piece for piece in pieces if self._buffer(piece) is None]

    def views(self, pieces: Iterable[Piece]) -> dict[int, torch.Tensor]:
        """Plain tensors that stand for pieces, none of which is missing, by their ids."""
        return {
            id(piece.tensor): buffer.part.view(piece, buffer.data)
            for piece in pieces
            if (buffer := self._buffer(piece)) is not None
        }

    def with_pieces(self, pieces: Sequence[Piece]) -> Region:
        """A region with the same memory, and more for pieces that share no byte with it."""
        made = copy(self)
        made.buffers, made.buffer_of = self.buffers.copy(), self.buffer_of.copy()
        made.sources = self.sources.copy()
        made._copy(pieces)
        return made

    def know(self, pieces: Iterable[Piece]) -> None:
        """Stand for the storages of some pieces."""
        for piece in pieces:
            storage = piece.tensor.untyped_storage()
            if storage._cdata not in self.sources:
                self.sources[storage._cdata] = StorageWeakRef(storage)

    def is_met_by(self, piece: Piece) -> bool:
        """Whether a piece lies in another storage, but one that shares memory with those here."""
        start, stop = piece.view.storage_span
        is_other = piece.tensor.untyped_storage()._cdata not in self.sources
        return is_other and start < self.span.stop and self.span.start < stop

    def is_alive(self) -> bool:
        """Whether a source storage still exists, so that the source addresses still count."""
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
    """Regions, to be found by the identities of the storages, and by the addresses, of sources."""

    def __init__(self) -> None:
        self.by_storage: dict[object, Region] = {}
        self._ascending: dict[Hashable, list[Region]] = {}

    def copy(self) -> Regions:
        """The same regions; what is added to the copy is not here."""
        made = Regions()
        made.by_storage = self.by_storage.copy()
        made._ascending = {space: regions.copy() for space, regions in self._ascending.items()}
        return made

    def meeting(self, group: Group) -> Region | None:
        """A region whose source addresses meet those of a group; dead ones are forgotten."""
        ascending = self._ascending.get(group.space, [])
        where = bisect_left(ascending, group.stop, key=_start)
        while where and ascending[where - 1].span.stop > group.start:
            where -= 1
            if ascending[where].is_alive():
                return ascending[where]
            del ascending[where]
        return None

    def put(self, region: Region, instead_of: Region | None = None) -> None:
        """Add a region that meets no other one, or the storages that it has come to know."""
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

"""Copies of storages that last, so that what shares memory with them is related to the copy."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, KeysView, Sequence
from copy import copy
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._views._view import View
from ._buffers import Buffer, new_buffers
from ._plan import Group, Piece
from ._spans import Pack


class Region:
    """Memory on a device that stands for some bytes of storages that share memory.

    It does not keep the sources alive.
    """

    def __init__(
        self, group: Group, device: torch.device, pack: Pack, non_blocking: bool = False
    ) -> None:
        self.span = group._replace(pieces=[])
        self.device = device
        self.buffers: list[Buffer] = []
        self._pack: Pack = pack
        self._non_blocking = non_blocking
        self._buffer_of: dict[View, Buffer] = {}
        self._sources: dict[int, StorageLife] = {}
        self._copy(group.pieces)

    def missing(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Those of some pieces of which not all bytes were copied."""
        return [piece for piece in pieces if self._buffer(piece) is None]

    def views(self, pieces: Iterable[Piece]) -> dict[int, torch.Tensor]:
        """Plain tensors that stand for pieces, none of which is missing, by their ids."""
        made = {}
        for piece in pieces:
            buffer = self._buffer(piece)
            assert buffer is not None
            made[id(piece.tensor)] = buffer.part.view(piece, buffer.data)
        return made

    def with_pieces(self, pieces: Sequence[Piece]) -> Region:
        """A region with the same memory, and more for pieces that share no byte with it."""
        made = copy(self)
        made.buffers, made._buffer_of = self.buffers.copy(), self._buffer_of.copy()
        made._sources = self._sources.copy()
        made._copy(pieces)
        return made

    def copied_views(self) -> Iterable[View]:
        """The views for which bytes were copied."""
        return self._buffer_of.keys()

    def storages(self) -> KeysView[int]:
        """Identities of the storages that the region stands for."""
        return self._sources.keys()

    def know(self, pieces: Iterable[Piece]) -> None:
        """Stand for the storages of some pieces."""
        for piece in pieces:
            storage = piece.tensor.untyped_storage()
            self._sources.setdefault(storage._cdata, StorageLife(storage))

    def is_met_by(self, piece: Piece) -> bool:
        """Whether a piece lies in another storage, but one that shares memory with those here."""
        start, stop = piece.view.storage_span
        is_other = piece.tensor.untyped_storage()._cdata not in self._sources
        return is_other and start < self.span.stop and self.span.start < stop

    def is_alive(self) -> bool:
        """Whether a source storage still exists, so that the source addresses still count."""
        return any(source.goes_on() for source in self._sources.values())

    def _buffer(self, piece: Piece) -> Buffer | None:
        buffer = self._buffer_of.get(piece.view)
        if buffer is None:
            buffer = next((buffer for buffer in self.buffers if buffer.part.holds(piece)), None)
        return buffer

    def _copy(self, pieces: Sequence[Piece]) -> None:
        group = self.span._replace(pieces=list(pieces))
        made = new_buffers(group, self.device, self._pack, non_blocking=self._non_blocking)
        for buffer in made:
            self.buffers.append(buffer)
            self._buffer_of |= dict.fromkeys([piece.view for piece in buffer.part.pieces], buffer)
            buffer.part.pieces.clear()  # they would keep the sources alive
        self.know(pieces)


class StorageLife:
    """A weak reference to a storage; no other one gets its identity while this exists."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        reference: Any = StorageWeakRef
        self._reference = reference(storage)

    def goes_on(self) -> bool:
        """Whether the storage still exists."""
        return not self._reference.expired()


class Regions:
    """Regions, to be found by the storages and by the addresses that they stand for."""

    def __init__(self) -> None:
        self._by_storage: dict[object, Region] = {}
        self._ascending: dict[Hashable, list[Region]] = {}

    def copy(self) -> Regions:
        """The same regions; what is added to the copy is not here."""
        made = Regions()
        made._by_storage = self._by_storage.copy()
        made._ascending = {space: regions.copy() for space, regions in self._ascending.items()}
        return made

    def storages(self) -> KeysView[object]:
        """Identities of the storages that some region stands for."""
        return self._by_storage.keys()

    def at(self, storage: object) -> Region | None:
        """The region that stands for a storage, given by its identity."""
        return self._by_storage.get(storage)

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
        self._by_storage.update(dict.fromkeys(region.storages(), region))

    def remove(self, region: Region) -> None:
        """Forget a region."""
        self._ascending[region.span.space].remove(region)
        for storage in region.storages():
            self._by_storage.pop(storage, None)


def _start(region: Region) -> int:
    return region.span.start

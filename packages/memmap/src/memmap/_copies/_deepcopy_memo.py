"""The storages that one deep copy has copied, shared through its memo.

torch keeps the copy of each storage in ``memo["torch"]``. A copy of only the bytes that a module
touches must not go there, because a view that is met later may touch other bytes. So the
dictionary there completes itself: if it is asked for a storage that was copied in part, it copies
the whole storage and moves the tensors made from the part over. Nobody has used them yet.
"""

from __future__ import annotations

from typing import Any

import torch

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._rebuild import bytes_of, view_like, with_class_of
from .._modules._traverse import path_text
from ._buffers import copied
from ._placement import Region, Regions
from ._plan import Group, Piece
from ._spans import ByteSpan, Pack


class CopiedStorages(dict[int, torch.UntypedStorage]):
    """Full copies of storages, by the identity (``_cdata``) of their source.

    A key is in the dictionary if any part of its storage was copied. A lookup makes the copy full.
    """

    def __init__(self, storages: dict[int, torch.UntypedStorage]) -> None:
        super().__init__(storages)
        self.reached: set[int] = set()  # ids of objects all of whose tensors are in the memo
        # Copies by the id of their source. Only the garbage collector would free the memo itself.
        self.made: dict[int, torch.Tensor] = {}
        self.counters = Counters()
        self._cloned: dict[object, torch.Tensor] = {}
        self._regions = Regions()
        self._pieces: dict[Region, list[Piece]] = {}

    @classmethod
    def of(cls, memo: dict[Any, Any]) -> CopiedStorages:
        """The copied storages of a memo, always the same object; entries of torch stay."""
        storages = memo.get("torch", {})
        if not isinstance(storages, cls):
            memo["torch"] = storages = cls(storages)
        return storages

    def __contains__(self, identity: object) -> bool:
        self._note_clone(identity)
        if super().__contains__(identity):
            return True
        region = self._regions.by_storage.get(identity)
        if region is None:
            return False
        self._complete(region, [])
        return True

    def is_empty(self) -> bool:
        """Whether nothing was copied before."""
        return not (self or self._cloned or self._pieces)

    def clone(self, sources: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Copies of tensors that fill their storages, by their ids."""
        with torch.no_grad():
            copies = {id(source): with_class_of(source.clone(), source) for source in sources}
        self.made |= copies
        self._cloned |= {source.untyped_storage()._cdata: source for source in sources}
        return copies

    def copy_group(self, group: Group, pack: Pack) -> dict[int, torch.Tensor]:
        """Copies of all pieces of a group, by their ids; earlier copies are used again."""
        plain, pieces = self._views_of_full_copies(group.pieces)
        if not pieces:
            return plain
        region = self._regions.meeting(group)
        if region is None:
            region = Region(group._replace(pieces=pieces), group.device, pack)
            self._regions.put(region)
        elif region.missing(pieces):
            self._complete(region, pieces)
            return plain | self._views_of_full_copies(pieces)[0]
        else:
            self._regions.remove(region)
            region.know(pieces)
            self._regions.put(region)
        self._pieces.setdefault(region, []).extend(pieces)
        return plain | region.views(pieces)

    def _views_of_full_copies(
        self, pieces: list[Piece]
    ) -> tuple[dict[int, torch.Tensor], list[Piece]]:
        """Views of the existing full copies, and the pieces without a full copy."""
        plain, rest = {}, []
        for piece in pieces:
            identity = piece.tensor.untyped_storage()._cdata
            self._note_clone(identity)
            storage = self.get(identity)
            if storage is None:
                rest.append(piece)
            else:
                data = bytes_of(storage, 0, storage.nbytes())
                plain[id(piece.tensor)] = view_like(piece.tensor, data, piece.view.offset)
        return plain, rest

    def _note_clone(self, identity: object) -> None:
        """Add the full copy of a cloned storage, only now, because most are never asked for."""
        source = self._cloned.pop(identity, None)
        if source is not None:
            made = self.made[id(source)]
            self[source.untyped_storage()._cdata] = made.untyped_storage()
            self.counters.add(source, made)

    def _complete(self, region: Region, more: list[Piece]) -> None:
        """Copy in full the storages of a region and of more pieces that share memory with it."""
        made = self._pieces.pop(region)
        self._regions.remove(region)
        pieces = made + more
        start = min(piece.view.storage_span[0] for piece in pieces)
        stop = max(piece.view.storage_span[1] for piece in pieces)
        full = copied(
            ByteSpan(start, stop, pieces), region.span._replace(pieces=pieces), region.device
        )
        with torch.no_grad():
            for buffer in region.buffers:
                assert isinstance(
                    buffer.chunk, ByteSpan
                )  # a deep copy moves nothing closer together
                offset = buffer.chunk.start - start
                full.data[offset : offset + len(buffer.data)].copy_(buffer.data)
        for piece in pieces:
            low, high = piece.view.storage_span
            storage = full.data.untyped_storage()
            if (low, high) != (start, stop):
                storage = storage[low - start : high - start]
            self.setdefault(piece.tensor.untyped_storage()._cdata, storage)
        for piece in made:
            tensor = self.made.get(id(piece.tensor))
            if tensor is None:
                raise StorageError(
                    f"{path_text(piece.path)}: a part of a tensor must not share memory with a "
                    "tensor outside of the module in the same deep copy, but it does"
                )
            tensor.data = full.chunk.view(piece, full.data)

"""What one deep copy knows about the storages it has copied, shared through its memo.

torch keeps in ``memo["torch"]`` which storage became which. A copy of only the bytes that a module
touches cannot stand there, since another view, met later, may touch other bytes. So a dictionary
stands there that completes itself: if a storage is asked for that was copied in part, it is copied
in full, and the tensors made from the part, which nobody has used yet, are moved over.
"""

from __future__ import annotations

from typing import Any

import torch

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._rebuild import bytes_of, dressed, view_like
from .._modules._traverse import path_text
from ._buffers import copied
from ._placement import Region, Regions
from ._plan import Group, Piece
from ._spans import Pack, Span


class CopiedStorages(dict[int, torch.UntypedStorage]):
    """Full copies of storages, under the identity (``_cdata``) of their source.

    A key is in here if its storage was copied at all; asking makes the copy a full one.
    """

    def __init__(self, known: dict[int, torch.UntypedStorage]) -> None:
        super().__init__(known)
        self.reached: set[int] = set()  # ids of objects all of whose tensors are in the memo
        # By the id of the source. The memo itself would be freed by the garbage collector only.
        self.made: dict[int, torch.Tensor] = {}
        self.counters = Counters()
        self._cloned: dict[object, torch.Tensor] = {}
        self._regions = Regions()
        self._pieces: dict[Region, list[Piece]] = {}

    @classmethod
    def of(cls, memo: dict[Any, Any]) -> CopiedStorages:
        """The copied storages of a memo, always the same object; what torch put there stays."""
        known = memo.get("torch", {})
        if not isinstance(known, cls):
            memo["torch"] = known = cls(known)
        return known

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
            copies = {id(source): dressed(source.clone(), source) for source in sources}
        self.made |= copies
        self._cloned |= {source.untyped_storage()._cdata: source for source in sources}
        return copies

    def copy_group(self, group: Group, pack: Pack) -> dict[int, torch.Tensor]:
        """Copies of all pieces of a group, by their ids; what was copied before is found again."""
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
            region.know(pieces)
            self._regions.put(region, instead_of=region)
        self._pieces.setdefault(region, []).extend(pieces)
        return plain | region.views(pieces)

    def _views_of_full_copies(
        self, pieces: list[Piece]
    ) -> tuple[dict[int, torch.Tensor], list[Piece]]:
        """Views of the full copies there are, and the pieces without one."""
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
        """Add the full copy of a storage that was cloned: of most, nobody asks for it again."""
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
        full = copied(Span(start, stop, pieces), region.span._replace(pieces=pieces), region.device)
        with torch.no_grad():
            for buffer in region.buffers:
                assert isinstance(buffer.part, Span)  # a deep copy moves nothing closer together
                place = buffer.part.start - start
                full.data[place : place + len(buffer.data)].copy_(buffer.data)
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
                    f"{path_text(piece.path)}: the parts of a tensor and a tensor outside of the "
                    f"module that is copied along must not share memory, but they do"
                )
            tensor.data = full.part.view(piece, full.data)

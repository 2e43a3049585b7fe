"""What one deep copy knows about the storages it has copied, shared through its memo.

`copy.deepcopy` hands one memo to everything it copies, and torch keeps in ``memo["torch"]`` which
storage became which, so that views of one storage stay together. A copy of only the bytes that a
module touches cannot stand there, since another view, met later, may touch other bytes. So a
dictionary stands there that completes itself: when, and only when, a storage is asked for that
was copied in part, it is copied in full, and the tensors made from the part are moved over.
Nobody has used those yet: the deep copy is still under way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from typing import Any

import torch

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._rebuild import view_like
from .._modules._traverse import path_text
from ._buffers import Buffer, Span, copy_span, spans_of
from ._plan import Group, Piece


class _Region:
    """The copied part of a group, and everything that was made from it."""

    def __init__(self, group: Group, pack: bool) -> None:
        self.group = group
        self.device = device = group.pieces[0].tensor.device
        self.pieces: list[Piece] = []
        self.buffers = [
            copy_span(span, group, device, non_blocking=False) for span in spans_of(group, pack)
        ]

    def views(self, pieces: list[Piece]) -> list[torch.Tensor] | None:
        """The copies of some pieces, or None if not all bytes of them were copied."""
        homes = [self._home(piece) for piece in pieces]
        if None in homes:
            return None
        self.pieces += pieces
        return [home.view(piece) for home, piece in zip(homes, pieces, strict=True) if home]

    def _home(self, piece: Piece) -> Buffer | None:
        low, _ = piece.view.span or (piece.view.address, None)
        past = bisect_right(self.buffers, low, key=lambda buffer: buffer.start)
        home = self.buffers[past - 1] if past else None
        return home if home and home.holds(piece) else None


class CopiedStorages(dict[int, torch.UntypedStorage]):
    """Full copies of storages, under the identity (``_cdata``) of their source.

    A key is in here if its storage was copied at all; asking makes the copy a full one.

    Attributes
    ----------
    reached : set of int
        Ids of objects all of whose tensors are in the memo.
    clones : dict of int to torch.Tensor
        Tensors that are all of their new storage, by the identity of the old one.
    made : dict of int to torch.Tensor
        What was made of the tensors, by the id of the source. (Not the memo itself: what it holds
        would then be freed by the garbage collector only.)
    counters : Counters
        Which copies count writes together.
    """

    def __init__(self, known: dict[int, torch.UntypedStorage]) -> None:
        super().__init__(known)
        self.reached: set[int] = set()
        self.clones: dict[int, torch.Tensor] = {}
        self.made: dict[int, torch.Tensor] = {}
        self.counters = Counters()
        self._regions: dict[int, _Region] = {}

    @classmethod
    def of(cls, memo: dict[Any, Any]) -> CopiedStorages:
        """The copied storages of a memo; what torch put there stays.

        Parameters
        ----------
        memo : dict
            The memo of a deep copy.

        Returns
        -------
        CopiedStorages
            The same object for the same memo.
        """
        known = memo.get("torch", {})
        if not isinstance(known, cls):
            memo["torch"] = known = cls(known)
        return known

    def __contains__(self, identity: object) -> bool:
        if super().__contains__(identity):
            return True
        clone = self.clones.get(identity)  # type: ignore[call-overload]  # any key may be asked for
        if clone is not None:
            self[identity] = clone.untyped_storage()  # type: ignore[index]  # it is one
            return True
        region = self._regions.get(identity)  # type: ignore[call-overload]  # as above
        if region is None:
            return False
        self._complete(region, [])
        return True

    def is_empty(self) -> bool:
        """Whether nothing was copied before."""
        return not (self or self.clones or self._regions)

    def copy_groups(self, groups: list[Group], pack: bool) -> dict[int, torch.Tensor]:
        """Copies of all pieces of some groups, with what was copied before taken into account.

        Parameters
        ----------
        groups : list of Group
            What to copy.
        pack : bool
            Whether to leave out gaps.

        Returns
        -------
        dict of int to torch.Tensor
            Plain tensors without history, by the id of their source.
        """
        plain: dict[int, torch.Tensor] = {}
        regions = _by_space(self._regions.values())
        for group in groups:
            pieces = self._copy_known(group.pieces, plain)
            if not pieces:
                continue
            region = _meeting(regions.get(group.space, []), group)
            if region is None:
                region = _Region(group._replace(pieces=pieces), pack)
            views = region.views(pieces)
            if views is None:
                self._complete(region, pieces)
                self._copy_known(pieces, plain)
            else:
                plain.update(zip((id(piece.tensor) for piece in pieces), views, strict=True))
                for piece in pieces:
                    self._regions[piece.tensor.untyped_storage()._cdata] = region
        return plain

    def _copy_known(self, pieces: list[Piece], plain: dict[int, torch.Tensor]) -> list[Piece]:
        """Make views of the full copies there are; return the pieces without one."""
        if not (self or self.clones):
            return pieces
        rest = []
        for piece in pieces:
            identity = piece.tensor.untyped_storage()._cdata
            if (clone := self.clones.get(identity)) is not None:
                self[identity] = clone.untyped_storage()
            if (copied := self.get(identity)) is None:
                rest.append(piece)
            else:
                plain[id(piece.tensor)] = view_like(piece.tensor, copied, piece.view.offset)
        return rest

    def _complete(self, region: _Region, more: list[Piece]) -> None:
        """Copy in full the storages of a region and of more pieces that share memory with it."""
        pieces = region.pieces + more
        start = min(piece.view.storage_span[0] for piece in pieces)
        stop = max(piece.view.storage_span[1] for piece in pieces)
        group = Group(region.group.space, start, stop, pieces)
        full = copy_span(Span(start, stop, pieces), group, region.device, non_blocking=False)
        with torch.no_grad():
            for part in region.buffers:
                full.data[part.start - start : part.stop - start].copy_(part.data)
        for piece in pieces:
            low, high = piece.view.storage_span
            storage = full.data.untyped_storage()
            if (low, high) != (start, stop):
                storage = storage[low - start : high - start]
            identity = piece.tensor.untyped_storage()._cdata
            self.setdefault(identity, storage)
            self._regions.pop(identity, None)
        for piece in region.pieces:
            made = self.made.get(id(piece.tensor))
            if made is None:
                raise StorageError(
                    f"{path_text(piece.path)}: the parts of a tensor and a tensor outside of the "
                    f"module that is copied along must not share memory, but they do"
                )
            made.data = full.view(piece)


def _by_space(regions: Iterable[_Region]) -> dict[Hashable, list[_Region]]:
    """Regions of each space, ascending."""
    spaces: dict[Hashable, list[_Region]] = {}
    for region in {id(region): region for region in regions}.values():
        spaces.setdefault(region.group.space, []).append(region)
    for found in spaces.values():
        found.sort(key=lambda region: region.group.start)
    return spaces


def _meeting(regions: list[_Region], group: Group) -> _Region | None:
    """The region whose storages share memory with those of a group, if there is one."""
    before = bisect_left(regions, group.stop, key=lambda region: region.group.start)
    if before and regions[before - 1].group.stop > group.start:
        return regions[before - 1]
    return None

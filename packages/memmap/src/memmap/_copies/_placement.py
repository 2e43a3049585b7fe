"""Where on a device the bytes of storages lie that were sent there, to be found again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from copy import copy

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._errors import StorageError
from .._modules._traverse import path_text
from .._views._footprint import Footprint, footprint
from .._views._layout import Layout
from ._buffers import Buffer, copy_span
from ._compact import Box, copy_box
from ._packing import Gaps, parts_of
from ._plan import Group, Piece


class Placement:
    """Memory on a device that stands for some bytes of a group of storages.

    Parameters
    ----------
    group : Group
        The storages, and the pieces to place at once.
    device : torch.device
        Where to.
    gaps : str
        See `Gaps`.
    non_blocking : bool
        Whether the host may go on before the bytes have arrived.
    """

    def __init__(self, group: Group, device: torch.device, gaps: Gaps, non_blocking: bool) -> None:
        self.group = group._replace(pieces=[])
        self._device = device
        self._gaps = gaps
        self._non_blocking = non_blocking
        self._homes: list[Buffer | Box] = []
        self._home_of: dict[Hashable, Buffer | Box] = {}
        self._layouts: list[Layout] = []
        self._sources: dict[int, StorageWeakRef] = {}
        self._add(group.pieces)

    def is_alive(self) -> bool:
        """Whether a source storage still exists, so that the source addresses still count."""
        return any(not source.expired() for source in self._sources.values())  # type: ignore[no-untyped-call]  # of torch

    def is_met_by(self, piece: Piece) -> bool:
        """Whether a piece lies in another storage, but one that shares memory with those here."""
        start, stop = piece.view.storage_span
        is_other = piece.tensor.untyped_storage()._cdata not in self._sources
        return is_other and start < self.group.stop and self.group.start < stop

    def with_pieces(self, pieces: Sequence[Piece]) -> Placement:
        """Place pieces that are missing, in a new placement that stands for them, too.

        Parameters
        ----------
        pieces : sequence of Piece
            Pieces of the storages of this group.

        Returns
        -------
        Placement
            Itself if nothing is missing; else a new one with the same memory and more.

        Raises
        ------
        StorageError
            If a piece overlaps what was placed before in part: the two would not be related.
        """
        missing = [piece for piece in pieces if self._home(piece) is None]
        if not missing:
            return self
        self._check_apart(missing)
        made = copy(self)
        made._homes, made._layouts = self._homes.copy(), self._layouts.copy()
        made._home_of, made._sources = self._home_of.copy(), self._sources.copy()
        made._add(missing)
        return made

    def sources(self) -> Iterable[int]:
        """Identities of the storages that it stands for."""
        return self._sources.keys()

    def views(self, pieces: Sequence[Piece]) -> dict[int, torch.Tensor]:
        """Tensors that stand for pieces.

        Parameters
        ----------
        pieces : sequence of Piece
            Pieces that are placed.

        Returns
        -------
        dict of int to torch.Tensor
            Plain tensors without history, by the id of their source.
        """
        made = {}
        for piece in pieces:
            home = self._home(piece)
            assert home is not None
            made[id(piece.tensor)] = home.view(piece)
        return made

    def _home(self, piece: Piece) -> Buffer | Box | None:
        home = self._home_of.get(piece.view)
        if home is None:
            home = next((home for home in self._homes if home.holds(piece)), None)
        return home

    def _check_apart(self, pieces: Sequence[Piece]) -> None:
        placed = Footprint(self.group.space, self._layouts)
        for piece in pieces:
            if not placed.isdisjoint(footprint(piece.view)):
                raise StorageError(
                    f"{path_text(piece.path)}: a view to be placed must lie within or apart from "
                    f"what is on {self._device} already, got one that overlaps it in part "
                    "(register all modules before the first of them is placed)"
                )

    def _add(self, pieces: Sequence[Piece]) -> None:
        group = self.group._replace(pieces=list(pieces))
        for span, grid in parts_of(group, self._gaps):
            home: Buffer | Box
            if grid is None:
                home = copy_span(span, group, self._device, self._non_blocking)
            else:
                home = copy_box(span, group, grid, self._device, self._non_blocking)
            self._homes.append(home)
            self._home_of.update(dict.fromkeys([piece.view for piece in span.pieces], home))
        for piece in pieces:
            layout = piece.view.layout()
            if layout is not None:
                self._layouts.append(layout)
            storage = piece.tensor.untyped_storage()
            self._sources[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # of torch


class Placements:
    """All placements of a map, by storage and device."""

    def __init__(self) -> None:
        self._by_storage: dict[tuple[int, torch.device], Placement] = {}
        self._ascending: dict[tuple[Hashable, torch.device], list[Placement]] = {}

    def copy(self) -> Placements:
        """The same placements; what is added to the copy, or released, is not here."""
        made = Placements()
        made._by_storage = self._by_storage.copy()
        made._ascending = {key: placements.copy() for key, placements in self._ascending.items()}
        return made

    def find(self, group: Group, device: torch.device) -> Placement | None:
        """The placement on a device of the storages of a group, if there is one."""
        for piece in group.pieces:
            # The placement holds a weak reference to the storage, so that no other gets its
            # identity.
            found = self._by_storage.get((piece.tensor.untyped_storage()._cdata, device))
            if found is not None:
                return found
        return None

    def add(self, group: Group, device: torch.device, gaps: Gaps, non_blocking: bool) -> Placement:
        """Place a group on a device.

        Raises
        ------
        StorageError
            If other storages that share its memory were placed without it.
        """
        ascending = self._ascending.setdefault((group.space, device), [])
        where = bisect_left(ascending, group.stop, key=_start)
        while where and ascending[where - 1].group.stop > group.start:
            where -= 1
            if not ascending[where].is_alive():
                del ascending[where]
                continue
            known = ascending[where]
            piece = next(piece for piece in group.pieces if known.is_met_by(piece))
            raise StorageError(
                f"{path_text(piece.path)}: storages that share memory must be known "
                f"before one of them is placed, got another one of what is on {device} already "
                "(register all modules before the first of them is placed)"
            )
        placement = Placement(group, device, gaps, non_blocking)
        insort(ascending, placement, key=_start)
        self._note(placement, device)
        return placement

    def widen(
        self, placement: Placement, pieces: Sequence[Piece], device: torch.device
    ) -> Placement:
        """The placement that also stands for some pieces, in the place of one that may not.

        Raises
        ------
        StorageError
            As for `Placement.with_pieces`.
        """
        wider = placement.with_pieces(pieces)
        if wider is not placement:
            ascending = self._ascending[placement.group.space, device]
            ascending[ascending.index(placement)] = wider
            self._note(wider, device)
        return wider

    def _note(self, placement: Placement, device: torch.device) -> None:
        for storage in placement.sources():
            self._by_storage[storage, device] = placement

    def storages(self, device: torch.device) -> list[int]:
        """Identities of the storages that are placed on a device."""
        return [storage for storage, where in self._by_storage if where == device]

    def release(self, device: torch.device | None) -> None:
        """Forget what lies on a device, or on all."""
        if device is None:
            self._by_storage.clear()
            self._ascending.clear()
            return
        self._by_storage = {key: at for key, at in self._by_storage.items() if key[1] != device}
        self._ascending = {key: at for key, at in self._ascending.items() if key[1] != device}


def _start(placement: Placement) -> int:
    return placement.group.start

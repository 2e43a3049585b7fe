"""Where on a device the bytes of storages lie that were sent there, to be found again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias, get_args

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ._dense import Box, Grid, copy_box, grid_of
from ._disjoint import DisjointSets
from ._errors import StorageError
from ._footprint import Footprint, footprint
from ._layout import Layout
from ._pairs import layout_pairs
from ._plan import Group, Piece
from ._reach import path_text
from ._region import Buffer, Span, copy_span, spans_of

Gaps: TypeAlias = Literal["keep", "split", "close"]
"""What becomes of the bytes between views: ``keep`` copies them along, so that all views of a
storage share one; ``split`` leaves out what lies between views whose bounds do not meet; ``close``
also moves views closer together that step over bytes nobody touches."""


def check_gaps(gaps: str) -> None:
    """Check that something says what becomes of gaps.

    Parameters
    ----------
    gaps : str
        Anything.

    Raises
    ------
    ValueError
        If it is no value of `Gaps`.
    """
    if gaps not in get_args(Gaps):
        raise ValueError(
            f"ModuleMemoryMap: gaps must be one of {', '.join(get_args(Gaps))}, got {gaps!r}"
        )


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

    def views(self, pieces: Sequence[Piece]) -> dict[int, torch.Tensor]:
        """Tensors that stand for pieces, which are placed now if they were not before.

        Parameters
        ----------
        pieces : sequence of Piece
            Pieces of the storages of this group.

        Returns
        -------
        dict of int to torch.Tensor
            Plain tensors without history, by the id of their source.

        Raises
        ------
        StorageError
            If a piece overlaps what was placed before in part: the two would not be related.
        """
        missing = [piece for piece in pieces if self._home(piece) is None]
        if missing:
            self._check_apart(missing)
            self._add(missing)
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
        for span, grid in _parts_of(group, self._gaps):
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


def _parts_of(group: Group, gaps: Gaps) -> list[tuple[Span, Grid | None]]:
    """Spans to be copied, in full or only a box in them."""
    if gaps != "close":
        return [(span, None) for span in spans_of(group, pack=gaps == "split")]
    parts: list[tuple[Span, Grid | None]] = []
    for span in _joined(spans_of(group, pack=True)):
        closer = _closer(span, group)
        saved = (
            span.stop
            - span.start
            - sum(part.stop - part.start if grid is None else grid.nbytes for part, grid in closer)
        )
        # What saves nothing would only take apart what lies together.
        parts += closer if saved > 0 else [(span, None)]
    return parts


def _joined(spans: list[Span]) -> list[Span]:
    """Spans with no gap between them as one."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if joined and span.start <= joined[-1].stop:
            last = joined[-1]
            joined[-1] = Span(last.start, max(last.stop, span.stop), last.pieces + span.pieces)
        else:
            joined.append(span)
    return joined


def _closer(span: Span, group: Group) -> list[tuple[Span, Grid | None]]:
    """Views of a span as close together as their overlaps allow."""
    pieces = [piece for piece in span.pieces if piece.view.layout() is not None]
    layouts = [layout for piece in pieces if (layout := piece.view.layout()) is not None]
    touched = Footprint(group.space, layouts).nbytes
    if not pieces or touched == span.stop - min(layout.start for layout in layouts):
        return [(span, None)]
    parts: list[tuple[Span, Grid | None]] = []
    rest = [piece for piece in span.pieces if piece.view.layout() is None]
    for members in _components(layouts, group.start):
        together = [pieces[member] for member in members]
        (part,) = spans_of(group._replace(pieces=together), pack=False)
        grid = grid_of(part, group)
        if grid is None:
            rest += together
        else:
            parts.append((part, grid))
    parts += [(part, None) for part in spans_of(group._replace(pieces=rest), pack=True)]
    return parts


def _components(layouts: Sequence[Layout], origin: int) -> Iterable[list[int]]:
    """Positions of sets of bytes that overlap, directly or through others."""
    sets = DisjointSets(len(layouts))
    for first, second in layout_pairs(layouts, origin):
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            sets.join(a, b)
    components: dict[int, list[int]] = {}
    for position in range(len(layouts)):
        components.setdefault(sets.find(position), []).append(position)
    return components.values()


class Placements:
    """All placements of a map, by storage and device."""

    def __init__(self) -> None:
        self._by_storage: dict[tuple[int, torch.device], Placement] = {}
        self._ascending: dict[tuple[Hashable, torch.device], list[Placement]] = {}

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
        for piece in group.pieces:
            self._by_storage[piece.tensor.untyped_storage()._cdata, device] = placement
        return placement

    def storages(self, device: torch.device) -> list[int]:
        """Identities of the storages that are placed on a device."""
        return [storage for storage, where in self._by_storage if where == device]

    @contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Context that forgets, if an error leaves it, what was placed within it."""
        by_storage = self._by_storage.copy()
        ascending = {key: placements.copy() for key, placements in self._ascending.items()}
        try:
            yield
        except BaseException:
            self._by_storage, self._ascending = by_storage, ascending
            raise

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

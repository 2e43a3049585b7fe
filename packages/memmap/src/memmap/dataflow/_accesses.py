"""Reads and writes that still matter: what each left, and what later writes took of it.

Bytes are not visited one by one. An access is kept as its view, together with the later writes
that overwrote some of it, its holes; bytes are counted only where views overlap in part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from .._views._footprint import footprint
from .._views._layout import Layout
from .._views._overlap import layouts_overlap
from .._views._runs import Runs, intersect, merge, n_bytes
from .._views._view import View
from ._layout_index import LayoutIndex
from ._tensors import MemoryView


class Region:
    """The bytes of a view, with what is worth remembering of them.

    Parameters
    ----------
    view : View
        A view that is not empty.
    layout : Layout
        Its bytes.
    """

    __slots__ = ("_nbytes", "_runs", "layout", "view")

    def __init__(self, view: View, layout: Layout) -> None:
        self.view = view
        self.layout = layout
        self._runs: Runs | None = None
        self._nbytes = layout.n_points if layout.is_nested else 0

    @property
    def runs(self) -> Runs:
        """Its maximal runs of bytes."""
        if self._runs is None:
            self._runs = footprint(self.view).runs()
        return self._runs

    @property
    def nbytes(self) -> int:
        """Number of its bytes."""
        if not self._nbytes:
            self._nbytes = footprint(self.view).nbytes
        return self._nbytes

    def overlaps(self, other: Region) -> bool:
        """Whether a byte belongs to both."""
        return layouts_overlap(self.layout, other.layout)

    def surely_contains(self, other: Region) -> bool:
        """Whether every byte of another region belongs to this one, if that is easy to see."""
        mine, its = self.layout, other.layout
        return mine == its or (mine.is_run and mine.start <= its.start and its.stop <= mine.stop)

    def n_common(self, other: Region) -> int:
        """Number of bytes that belong to both."""
        if self.surely_contains(other):
            return other.nbytes
        if other.surely_contains(self):
            return self.nbytes
        return n_bytes(intersect(self.runs, other.runs))


class Access:
    """One view that one operation reads or writes.

    Parameters
    ----------
    index : int
        Place of the operation in the program.
    view : TensorView or TracedView
        The view.
    region : Region
        Its bytes.
    """

    __slots__ = ("_holes", "_n_left", "index", "region", "view")

    def __init__(self, index: int, view: MemoryView, region: Region) -> None:
        self.index = index
        self.view = view
        self.region = region
        self._holes: LayoutIndex[Region] | None = None
        self._n_left = 0

    def still_meets(self, other: Region) -> bool:
        """Whether some byte of a region is still as this access left it."""
        if not self.region.overlaps(other):
            return False
        return self._holes is None or self._n_left_in(other, self._holes) > 0

    def is_ended_by(self, write: Region) -> bool:
        """Take away the bytes of a write; whether none is left then."""
        if write.surely_contains(self.region):
            return True
        if self._holes is None:
            self._holes = LayoutIndex()
            self._n_left = self.region.nbytes
        n_taken = self._n_left_in(write, self._holes)
        if n_taken:
            self._n_left -= n_taken
            self._holes.add(write.layout, write)
        return self._n_left == 0

    def _n_left_in(self, other: Region, holes: LayoutIndex[Region]) -> int:
        """Number of bytes of a region that are still as this access left them."""
        met = [hole for hole in holes.may_meet(other.layout) if hole.overlaps(other)]
        if any(hole.surely_contains(other) for hole in met):
            return 0
        if not met:
            return self.region.n_common(other)
        common = intersect(self.region.runs, other.runs)
        covered = merge(np.concatenate([hole.runs for hole in met]))
        return n_bytes(common) - n_bytes(intersect(common, covered))


class Standing:
    """The accesses of one kind that still matter, in one address space."""

    __slots__ = ("_index",)

    def __init__(self) -> None:
        self._index: LayoutIndex[Access] = LayoutIndex()

    def add(self, access: Access) -> None:
        """Add an access."""
        self._index.add(access.region.layout, access)

    def meeting(self, region: Region) -> list[Access]:
        """Accesses that left some byte of a region as it is."""
        candidates = self._index.may_meet(region.layout)
        return [access for access in candidates if access.still_meets(region)]

    def overwrite(self, region: Region) -> None:
        """Take the bytes of a write away from all accesses."""
        for access in self.meeting(region):
            if access.is_ended_by(region):
                self._index.discard(access.region.layout, access)


class Memory:
    """All address spaces of a program: the writes that stand, and the reads since."""

    def __init__(self) -> None:
        self._spaces: dict[Hashable, tuple[Standing, Standing]] = {}
        self._regions: dict[View, Region | None] = {}

    def accesses(self, index: int, views: Iterable[MemoryView]) -> list[Access]:
        """One access for each different view that is not empty.

        Parameters
        ----------
        index : int
            Place of the operation in the program.
        views : iterable of TensorView or TracedView
            What it reads, or what it writes.

        Returns
        -------
        list of Access
            New ones, which stand nowhere yet.
        """
        different = {id(view): view for view in views}.values()
        found = [(view, self._region(view.memory)) for view in different]
        return [Access(index, view, region) for view, region in found if region is not None]

    def readers_and_writers(self, access: Access) -> tuple[Standing, Standing]:
        """The reads and the writes that stand in the address space of an access."""
        space = access.region.view.space
        if space not in self._spaces:
            self._spaces[space] = Standing(), Standing()
        return self._spaces[space]

    def _region(self, view: View) -> Region | None:
        if view not in self._regions:
            layout = view.layout()
            self._regions[view] = None if layout is None else Region(view, layout)
        return self._regions[view]

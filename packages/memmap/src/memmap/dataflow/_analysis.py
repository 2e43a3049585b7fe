"""Finding the hazards between operations.

Bytes are not visited one by one. An access is stored as its view, together with the later writes
that overwrote parts of it (its holes). Bytes are counted only if views overlap in part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from .._views._coverage import n_touched
from .._views._layout import Layout
from .._views._layout_index import LayoutIndex
from .._views._overlap import layouts_overlap
from .._views._runs import Runs, intersect, layout_runs, merge, n_bytes
from .._views._view import View
from ._graph import Dependency, DependencyGraph, HazardKind
from ._operation import Operation, SelfHazard
from ._tensors import MemoryView


def analyze_dependencies(operations: Iterable[Operation]) -> DependencyGraph:
    """Hazards between the operations of a program, exact to the byte.

    An operation depends on an earlier one if the two must not be swapped: it reads bytes that the
    earlier one wrote (RAW), or it overwrites bytes that the earlier one reads (WAR) or wrote (WAW).
    Only the current value of a byte counts: once later writes have overwritten a write, it causes
    no further hazard.

    Parameters
    ----------
    operations : iterable of Operation
        In the order of the program, from `trace` or made by hand. Other objects: TypeError.

    References
    ----------
    A. J. Bernstein, "Analysis of programs for parallel processing", IEEE Transactions on
    Electronic Computers EC-15 (1966), 757-763.

    Examples
    --------
    >>> from memmap.dataflow import FillOperation, Tensor, TensorView, TransformOperation
    >>> tensor = Tensor("A", (4, 4))
    >>> block = TensorView("block", tensor, 0, (3, 3), (4, 1))
    >>> corner = TensorView("corner", tensor, 10, (2, 2), (4, 1))
    >>> fill = FillOperation("fill").set_outputs(block)
    >>> read = TransformOperation("read").set_inputs(corner)
    >>> print(*analyze_dependencies([fill, read]).edges)
    fill -> read (RAW, implicit)
    """
    if not isinstance(operations, Iterable):
        raise TypeError(
            f"analyze_dependencies: operations must be iterable, got {type(operations).__name__}"
        )
    program = tuple(operations)
    memory = _Memory()
    edges: list[Dependency] = []
    self_hazards: list[SelfHazard] = []
    for index, operation in enumerate(program):
        if not isinstance(operation, Operation):
            raise TypeError(
                f"analyze_dependencies: every item must be an Operation, "
                f"got {type(operation).__name__} at position {index}"
            )
        hazards: _Hazards = {}
        reads = memory.accesses(index, operation.input_views)
        writes = memory.accesses(index, operation.output_views)
        for access in reads:
            _note(hazards, HazardKind.RAW, access.live.writes, access)
        for access in writes:
            _note(hazards, HazardKind.WAR, access.live.reads, access)
            _note(hazards, HazardKind.WAW, access.live.writes, access)
        # The operation reads before it writes, so its own writes also end its reads.
        for access in reads:
            access.live.reads.add(access.region.layout, access)
        for access in writes:
            _overwrite(access.live.reads, access.region)
            _overwrite(access.live.writes, access.region)
            access.live.writes.add(access.region.layout, access)
        edges += [
            Dependency(program[earlier], operation, earlier, index, kind, tuple(pairs.values()))
            for (earlier, kind), pairs in sorted(hazards.items(), key=lambda item: item[0])
        ]
        self_hazards += operation.self_hazards()
    return DependencyGraph(program, edges, self_hazards)


class _Region:
    """The bytes of a view."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def runs(self) -> Runs:
        return layout_runs(self.layout)

    @cached_property
    def nbytes(self) -> int:
        return n_touched([self.layout])

    def surely_contains(self, other: _Region) -> bool:
        """Whether this region contains another one; False also if that is not easy to see."""
        mine, its = self.layout, other.layout
        return mine == its or (mine.is_run and mine.start <= its.start and its.stop <= mine.stop)

    def n_common(self, other: _Region) -> int:
        if self.surely_contains(other):
            return other.nbytes
        if other.surely_contains(self):
            return self.nbytes
        return n_bytes(intersect(self.runs, other.runs))


@dataclass(eq=False, slots=True)
class _Access:
    """One view that one operation reads or writes."""

    index: int
    view: MemoryView
    region: _Region
    live: _LiveAccesses
    _holes: LayoutIndex[_Region] | None = None
    _n_left: int = 0

    def still_meets(self, other: _Region) -> bool:
        """Whether some byte of a region has not been overwritten since this access."""
        return layouts_overlap(self.region.layout, other.layout) and (
            self._holes is None or self._n_left_in(other, self._holes) > 0
        )

    def is_ended_by(self, write: _Region) -> bool:
        """Remove the bytes of a write from this access; return whether no byte is left."""
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

    def _n_left_in(self, other: _Region, holes: LayoutIndex[_Region]) -> int:
        """Number of bytes of a region that have not been overwritten since this access."""
        near = holes.may_meet(other.layout)
        met = [hole for hole in near if layouts_overlap(hole.layout, other.layout)]
        if any(hole.surely_contains(other) for hole in met):
            return 0
        if not met:
            return self.region.n_common(other)
        common = intersect(self.region.runs, other.runs)
        covered = merge(np.concatenate([hole.runs for hole in met]))
        return n_bytes(common) - n_bytes(intersect(common, covered))


class _LiveAccesses:
    """The accesses that can still cause hazards in one address space: reads and writes."""

    def __init__(self) -> None:
        self.reads: LayoutIndex[_Access] = LayoutIndex()
        self.writes: LayoutIndex[_Access] = LayoutIndex()


class _Memory:
    """All address spaces of a program."""

    def __init__(self) -> None:
        self._spaces: defaultdict[Hashable, _LiveAccesses] = defaultdict(_LiveAccesses)
        self._regions: dict[View, _Region | None] = {}

    def accesses(self, index: int, views: Iterable[MemoryView]) -> list[_Access]:
        """One new access for each different nonempty view."""
        made = []
        for view in {id(view): view for view in views}.values():
            memory = view.memory
            if memory not in self._regions:
                layout = memory.layout()
                self._regions[memory] = None if layout is None else _Region(layout)
            region = self._regions[memory]
            if region is not None:
                made.append(_Access(index, view, region, self._spaces[memory.space]))
        return made


def _meeting(live: LayoutIndex[_Access], region: _Region) -> list[_Access]:
    """Accesses that touch a byte of a region that has not been overwritten since."""
    return [access for access in live.may_meet(region.layout) if access.still_meets(region)]


def _overwrite(live: LayoutIndex[_Access], region: _Region) -> None:
    """Remove the bytes of a write from all accesses."""
    for access in _meeting(live, region):
        if access.is_ended_by(region):
            live.discard(access.region.layout, access)


# Pairs of views (by their identities) for each earlier operation and kind of hazard.
_Pairs: TypeAlias = dict[tuple[int, int], tuple[MemoryView, MemoryView]]
_Hazards: TypeAlias = dict[tuple[int, HazardKind], _Pairs]


def _note(hazards: _Hazards, kind: HazardKind, live: LayoutIndex[_Access], access: _Access) -> None:
    """Note the hazards of one kind between earlier accesses and a new one."""
    for earlier in _meeting(live, access.region):
        pairs = hazards.setdefault((earlier.index, kind), {})
        pairs[id(earlier.view), id(access.view)] = earlier.view, access.view

"""Finding the hazards between operations.

Bytes are not visited one by one. An access is stored as its view, together with the later writes
that overwrote parts of it (its holes). Bytes are counted only if views overlap in part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from .._views._coverage import FEW_RUNS, n_touched
from .._views._layout import Layout
from .._views._layout_index import LayoutIndex
from .._views._overlap import layouts_overlap
from .._views._runs import intersect, layout_runs, merge, n_bytes
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
    # The accesses that can still cause hazards.
    reads: LayoutIndex[_Access] = LayoutIndex()
    writes: LayoutIndex[_Access] = LayoutIndex()
    edges: list[Dependency] = []
    self_hazards: list[SelfHazard] = []
    for index, operation in enumerate(program):
        if not isinstance(operation, Operation):
            raise TypeError(
                f"analyze_dependencies: every item must be an Operation, "
                f"got {type(operation).__name__} at position {index}"
            )
        hazards: _Hazards = {}
        read = _accesses(index, operation.input_views)
        written = _accesses(index, operation.output_views)
        for access in read:
            _note(hazards, HazardKind.RAW, writes, access)
        for access in written:
            _note(hazards, HazardKind.WAR, reads, access)
            _note(hazards, HazardKind.WAW, writes, access)
        # The operation reads before it writes, so its own writes also end its reads.
        for access in read:
            reads.add(access.space, access.layout, access)
        for access in written:
            _overwrite(reads, access)
            _overwrite(writes, access)
            writes.add(access.space, access.layout, access)
        edges += [
            Dependency(program[earlier], operation, earlier, index, kind, tuple(pairs.values()))
            for (earlier, kind), pairs in sorted(hazards.items(), key=lambda item: item[0])
        ]
        self_hazards += operation.self_hazards()
    return DependencyGraph(program, edges, self_hazards)


@dataclass(eq=False, slots=True)
class _Access:
    """One view that one operation reads or writes, and the later writes that overwrote parts of it.

    `n_left` is the number of bytes that were not overwritten, None as long as these are all.
    """

    index: int
    view: MemoryView
    space: Hashable
    layout: Layout
    holes: LayoutIndex[Layout] = field(default_factory=LayoutIndex)
    n_left: int | None = None

    def still_meets(self, other: Layout) -> bool:
        """Whether some byte of a layout has not been overwritten since this access."""
        return layouts_overlap(self.layout, other) and (
            self.n_left is None or self._n_left_in(other) > 0
        )

    def is_ended_by(self, write: Layout) -> bool:
        """Remove the bytes of a write from this access; return whether no byte is left."""
        if _surely_contains(write, self.layout):
            return True
        if self.n_left is None:
            self.n_left = n_touched([self.layout])
        n_taken = self._n_left_in(write)
        if n_taken:
            self.n_left -= n_taken
            self.holes.add(self.space, write, write)
        return self.n_left == 0

    def _n_left_in(self, other: Layout) -> int:
        """Number of bytes of a layout that have not been overwritten since this access."""
        near = self.holes.may_meet(self.space, other)
        holes = [hole for hole in near if layouts_overlap(hole, other)]
        if any(_surely_contains(hole, other) for hole in holes):
            return 0
        if not holes and _surely_contains(self.layout, other):
            return n_touched([other])
        if sum([layout.n_runs for layout in (self.layout, other, *holes)]) <= FEW_RUNS:
            common = intersect(_few_runs(self.layout), _few_runs(other))
            covered = merge(np.concatenate([_few_runs(hole) for hole in holes] or [common[:0]]))
            return n_bytes(common) - n_bytes(intersect(common, covered))
        # Inclusion and exclusion of the bytes outside of the holes: so only unions are counted.
        n_mine, n_its = n_touched([self.layout, *holes]), n_touched([other, *holes])
        n_holes = n_touched(holes) if holes else 0
        return n_mine + n_its - n_touched([self.layout, other, *holes]) - n_holes


# Programs use a few views again and again.
_few_runs = lru_cache(maxsize=512)(layout_runs)


def _surely_contains(mine: Layout, its: Layout) -> bool:
    """Whether a layout contains another one; False also if that is not easy to see."""
    return mine == its or (mine.is_run and mine.start <= its.start and its.stop <= mine.stop)


def _accesses(index: int, views: Iterable[MemoryView]) -> list[_Access]:
    """One new access for each different nonempty view."""
    made = []
    for view in {id(view): view for view in views}.values():
        memory = view.memory
        layout = memory.layout()
        if layout is not None:
            made.append(_Access(index, view, memory.space, layout))
    return made


def _meeting(live: LayoutIndex[_Access], access: _Access) -> list[_Access]:
    """Accesses that touch a byte of another one that has not been overwritten since."""
    near = live.may_meet(access.space, access.layout)
    return [earlier for earlier in near if earlier.still_meets(access.layout)]


def _overwrite(live: LayoutIndex[_Access], write: _Access) -> None:
    """Remove the bytes of a write from all accesses."""
    for access in _meeting(live, write):
        if access.is_ended_by(write.layout):
            live.discard(access.space, access.layout, access)


# Pairs of views (by their identities) for each earlier operation and kind of hazard.
_Pairs: TypeAlias = dict[tuple[int, int], tuple[MemoryView, MemoryView]]
_Hazards: TypeAlias = dict[tuple[int, HazardKind], _Pairs]


def _note(hazards: _Hazards, kind: HazardKind, live: LayoutIndex[_Access], access: _Access) -> None:
    """Note the hazards of one kind between earlier accesses and a new one."""
    for earlier in _meeting(live, access):
        pairs = hazards.setdefault((earlier.index, kind), {})
        pairs[id(earlier.view), id(access.view)] = earlier.view, access.view

"""From a list of operations to the hazards between them.

Every byte remembers its present writer and the readers since. Bytes are not visited: they are
kept as the views through which they were accessed, together with what later writes left of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from .._footprint import footprint
from .._layout import Layout
from .._overlap import layouts_overlap
from .._runs import Runs, intersect
from ._graph import DependencyGraph
from ._hazards import Dependency, HazardKind, SelfHazard
from ._operation import Operation
from ._spans import SpanIndex
from ._tensors import MemoryView


def analyze_dependencies(operations: Iterable[Operation]) -> DependencyGraph:
    """Hazards between the operations of a program, byte for byte.

    An operation depends on another one if they must not change places: it reads what the other
    wrote (RAW), overwrites what the other reads (WAR) or what the other wrote (WAW). Only the
    present value of a byte counts: a write that is overwritten, by one later write or by several
    together, is the source of no further hazard.

    Parameters
    ----------
    operations : iterable of Operation
        In the order of the program; from `trace`, or made by hand.

    Returns
    -------
    DependencyGraph
        The operations, the hazards between them, and those inside one of them.

    Raises
    ------
    TypeError
        If something is not an `Operation`.

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
    program = tuple(operations)
    spaces: dict[Hashable, _Space] = {}
    edges: list[Dependency] = []
    self_hazards: list[SelfHazard] = []
    for index, operation in enumerate(program):
        if not isinstance(operation, Operation):
            raise TypeError(
                f"analyze_dependencies: every item must be an Operation, "
                f"got {type(operation).__name__} at position {index}"
            )
        hazards = _Hazards()
        reads = _accesses(index, operation.input_views)
        writes = _accesses(index, operation.output_views)
        for access in reads:
            space = spaces.setdefault(access.view.memory.space, _Space())
            hazards.add(HazardKind.RAW, space.writers, access)
        for access in writes:
            space = spaces.setdefault(access.view.memory.space, _Space())
            hazards.add(HazardKind.WAR, space.readers, access)
            hazards.add(HazardKind.WAW, space.writers, access)
        # The operation reads before it writes: its own writes end its reads too.
        for access in reads:
            spaces[access.view.memory.space].readers.add(*access.span, access)
        for access in writes:
            spaces[access.view.memory.space].write(access)
        edges += hazards.edges(program, index)
        self_hazards += operation.self_hazards()
    return DependencyGraph(program, edges, self_hazards)


class _Access:
    """One view that an operation reads or writes, and which of its bytes still are as it left them.

    ``left`` is None while no later write has touched the view, else the runs that remain.
    """

    __slots__ = ("_runs", "index", "layout", "left", "view")

    def __init__(self, index: int, view: MemoryView, layout: Layout) -> None:
        self.index = index
        self.view = view
        self.layout = layout
        self.left: Runs | None = None
        self._runs: Runs | None = None

    @property
    def span(self) -> tuple[int, int]:
        return self.layout.start, self.layout.stop

    @property
    def runs(self) -> Runs:
        if self._runs is None:
            self._runs = footprint(self.view.memory).runs()
        return self._runs

    def meets(self, later: _Access) -> bool:
        """Whether a byte that is still as this access left it belongs to a later access."""
        return layouts_overlap(self.layout, later.layout) and (
            self.left is None or intersect(self.left, later.runs).size > 0
        )

    def is_ended_by(self, write: _Access) -> bool:
        """Take away the bytes of a write; whether none is left."""
        if self.layout == write.layout or (
            write.layout.is_run
            and write.layout.start <= self.layout.start
            and self.layout.stop <= write.layout.stop
        ):
            return True
        self.left = _subtract(self.runs if self.left is None else self.left, write.runs)
        return len(self.left) == 0


class _Space:
    """One address space: the writes that still stand, and the reads since."""

    __slots__ = ("readers", "writers")

    def __init__(self) -> None:
        self.readers: SpanIndex[_Access] = SpanIndex()
        self.writers: SpanIndex[_Access] = SpanIndex()

    def write(self, write: _Access) -> None:
        """Let a write end what it overwrites, and stand from now on."""
        for standing in (self.readers, self.writers):
            for access in standing.meeting(*write.span):
                if access.meets(write) and access.is_ended_by(write):
                    standing.discard(*access.span, access)
        self.writers.add(*write.span, write)


class _Hazards:
    """The hazards that one operation meets, by earlier operation and kind."""

    def __init__(self) -> None:
        self._views: dict[tuple[int, HazardKind], dict[tuple[int, int], _Pair]] = {}

    def add(self, kind: HazardKind, standing: SpanIndex[_Access], access: _Access) -> None:
        for earlier in standing.meeting(*access.span):
            if earlier.meets(access):
                pairs = self._views.setdefault((earlier.index, kind), {})
                pairs[id(earlier.view), id(access.view)] = earlier.view, access.view

    def edges(self, program: Sequence[Operation], later: int) -> list[Dependency]:
        return [
            Dependency(
                program[earlier], program[later], earlier, later, kind, tuple(pairs.values())
            )
            for (earlier, kind), pairs in sorted(self._views.items(), key=lambda item: item[0])
        ]


_Pair = tuple[MemoryView, MemoryView]


def _accesses(index: int, views: Iterable[MemoryView]) -> list[_Access]:
    """One access for each different view that is not empty."""
    different = {id(view): view for view in views}.values()
    layouts = [(view, view.memory.layout()) for view in different]
    return [_Access(index, view, layout) for view, layout in layouts if layout is not None]


def _subtract(a: Runs, b: Runs) -> Runs:
    """Integers of `a` that are not in `b`; neither is empty."""
    start = np.concatenate([a[:1, 0], b[:, 1]])
    stop = np.concatenate([b[:, 0], a[-1:, 1]])
    gaps = np.stack([start, stop], axis=1)
    return intersect(a, gaps[start < stop])

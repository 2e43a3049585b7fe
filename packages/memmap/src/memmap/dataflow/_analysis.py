"""From a list of operations to the hazards between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ._accesses import Access, Memory, Standing
from ._graph import DependencyGraph
from ._hazards import Dependency, HazardKind, SelfHazard
from ._operation import Operation
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
        If `operations` is not iterable, or something in it is not an `Operation`.

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
    memory = Memory()
    edges: list[Dependency] = []
    self_hazards: list[SelfHazard] = []
    for index, operation in enumerate(program):
        if not isinstance(operation, Operation):
            raise TypeError(
                f"analyze_dependencies: every item must be an Operation, "
                f"got {type(operation).__name__} at position {index}"
            )
        found: _Found = {}
        reads = memory.accesses(index, operation.input_views)
        writes = memory.accesses(index, operation.output_views)
        for access in reads:
            _, writers = memory.readers_and_writers(access)
            _note(found, HazardKind.RAW, writers, access)
        for access in writes:
            readers, writers = memory.readers_and_writers(access)
            _note(found, HazardKind.WAR, readers, access)
            _note(found, HazardKind.WAW, writers, access)
        # The operation reads before it writes: its own writes end its reads too.
        for access in reads:
            readers, _ = memory.readers_and_writers(access)
            readers.add(access)
        for access in writes:
            readers, writers = memory.readers_and_writers(access)
            readers.overwrite(access.region)
            writers.overwrite(access.region)
            writers.add(access)
        edges += _edges(found, program, index)
        self_hazards += operation.self_hazards()
    return DependencyGraph(program, edges, self_hazards)


_Pair: TypeAlias = tuple[MemoryView, MemoryView]
_Found: TypeAlias = dict[tuple[int, HazardKind], dict[tuple[int, int], _Pair]]
"""Pairs of views, by the identity of both, by earlier operation and kind."""


def _note(found: _Found, kind: HazardKind, standing: Standing, access: Access) -> None:
    """Note the hazards of one kind between what stands and what one operation does now."""
    for earlier in standing.meeting(access.region):
        pairs = found.setdefault((earlier.index, kind), {})
        pairs[id(earlier.view), id(access.view)] = earlier.view, access.view


def _edges(found: _Found, program: Sequence[Operation], later: int) -> list[Dependency]:
    return [
        Dependency(program[earlier], program[later], earlier, later, kind, tuple(pairs.values()))
        for (earlier, kind), pairs in sorted(found.items(), key=lambda item: item[0])
    ]

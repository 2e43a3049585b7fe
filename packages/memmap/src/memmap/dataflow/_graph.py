"""The dependency graph of a program: edges, waves, transitive reduction, and a printed table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum

from ._operation import Operation, SelfHazard
from ._tensors import MemoryView


class HazardKind(StrEnum):
    """The reason why one operation must wait for an earlier one; a string.

    RAW: it reads bytes whose current value the earlier one wrote. WAR: it overwrites bytes that
    the earlier one reads. WAW: it overwrites bytes whose current value the earlier one wrote.
    """

    RAW = "RAW"
    WAR = "WAR"
    WAW = "WAW"


@dataclass(frozen=True)
class Dependency:
    """One edge of a `DependencyGraph`: `later` must not start before `earlier` has ended.

    Attributes
    ----------
    earlier_index, later_index : int
        Their positions in the program.
    views : tuple of (view, view)
        The pairs of overlapping views, one of `earlier` and one of `later`.
    """

    earlier: Operation
    later: Operation
    earlier_index: int
    later_index: int
    kind: HazardKind
    views: tuple[tuple[MemoryView, MemoryView], ...]

    @property
    def explicit(self) -> bool:
        """Whether the two operations use the same view object."""
        return any(first is second for first, second in self.views)

    @property
    def implicit(self) -> bool:
        """Whether the two operations meet only through different views with overlapping memory."""
        return not self.explicit

    def __str__(self) -> str:
        how = "explicit" if self.explicit else "implicit"
        return f"{self.earlier.name} -> {self.later.name} ({self.kind}, {how})"


class DependencyGraph:
    """The operations of a program and their hazards; made by `analyze_dependencies`.

    Attributes
    ----------
    operations : tuple of Operation
        In the order of the program.
    edges : tuple of Dependency
        Hazards between operations, ordered by the later operation, then the earlier one, then the
        kind. Two operations may have several edges, one of each kind.
    self_hazards : tuple of SelfHazard
        Hazards inside single operations.

    Examples
    --------
    >>> from memmap.dataflow import FillOperation, Tensor, TensorView, analyze_dependencies
    >>> tensor = Tensor("A", (4,))
    >>> left, right = TensorView("left", tensor, 0, (2,)), TensorView("right", tensor, 2, (2,))
    >>> clear = FillOperation("clear", 0).set_outputs(TensorView("all", tensor))
    >>> one, two = FillOperation("one").set_outputs(left), FillOperation("two").set_outputs(right)
    >>> graph = analyze_dependencies([clear, one, two])
    >>> graph.as_dict()
    {'clear': [], 'one': ['clear'], 'two': ['clear']}
    >>> print(graph)
    wave  operation  waits for
    1     clear
    2     one        clear (WAW implicit)
    2     two        clear (WAW implicit)
    3 operations, 2 hazards, 2 waves
    """

    def __init__(
        self,
        operations: Iterable[Operation],
        edges: Iterable[Dependency],
        self_hazards: Iterable[SelfHazard] = (),
    ) -> None:
        self.operations = tuple(operations)
        self.edges = tuple(edges)
        self.self_hazards = tuple(self_hazards)
        self._earlier: list[set[int]] = [set() for _ in self.operations]
        for edge in self.edges:
            self._earlier[edge.later_index].add(edge.earlier_index)
        self._levels: list[int] = []  # index of the wave of each operation
        for earlier in self._earlier:
            self._levels.append(1 + max((self._levels[index] for index in earlier), default=-1))

    def as_dict(self) -> dict[str, list[str]]:
        """For each operation name, the names of the earlier operations that it depends on directly.

        All are in the order of the program. Raises `ValueError` if two operations have one name.
        """
        repeated = [name for name, n in Counter(op.name for op in self.operations).items() if n > 1]
        if repeated:
            raise ValueError(
                f"as_dict: every operation must have its own name, "
                f"got {', '.join(map(repr, repeated))} more than once"
            )
        return {
            operation.name: [self.operations[index].name for index in sorted(earlier)]
            for operation, earlier in zip(self.operations, self._earlier, strict=True)
        }

    def waves(self) -> list[list[Operation]]:
        """Groups of operations that may run at once; each group waits for the one before.

        Every operation is in the earliest possible wave, in the order of the program. Operations of
        one wave have no hazards between them: they may run at once, or in any order.
        """
        waves: list[list[Operation]] = [[] for _ in set(self._levels)]
        for operation, level in zip(self.operations, self._levels, strict=True):
            waves[level].append(operation)
        return waves

    def transitive_reduction(self) -> tuple[Dependency, ...]:
        """The smallest set of edges that implies all others.

        An order of the operations that respects these edges respects all edges. This is no longer
        true if any one of them is left out.
        """
        before: list[int] = []  # bit i of before[j]: operation j must wait for operation i
        needed = set()
        for later, direct in enumerate(self._earlier):
            reached = 0
            for earlier in sorted(direct, reverse=True):
                if not reached >> earlier & 1:
                    needed.add((earlier, later))
                    reached |= before[earlier] | 1 << earlier
            before.append(reached)
        return tuple(e for e in self.edges if (e.earlier_index, e.later_index) in needed)

    def __str__(self) -> str:
        waits: list[dict[int, list[str]]] = [{} for _ in self.operations]
        for edge in self.edges:
            how = "explicit" if edge.explicit else "implicit"
            hazards = waits[edge.later_index].setdefault(edge.earlier_index, [])
            hazards.append(f"{edge.kind} {how}")
        rows = [("wave", "operation", "waits for")]
        for operation, level, earlier in zip(self.operations, self._levels, waits, strict=True):
            reasons = [f"{self.operations[i].name} ({', '.join(h)})" for i, h in earlier.items()]
            rows.append((str(level + 1), operation.name, "; ".join(reasons)))
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines = [f"{wave:{first}}  {name:{second}}  {why}".rstrip() for wave, name, why in rows]
        lines += [f"self-hazard: {hazard}" for hazard in self.self_hazards]
        lines.append(_counted(operation=self.operations, hazard=self.edges, wave=self.waves()))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"DependencyGraph({_counted(operation=self.operations, hazard=self.edges)})"


def _counted(**things: Sized) -> str:
    """Numbers of things as text: ``1 wave, 2 hazards``."""
    return ", ".join(f"{len(t)} {what}{'s' * (len(t) != 1)}" for what, t in things.items())

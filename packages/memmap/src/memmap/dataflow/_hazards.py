"""What a hazard is: between two operations, or inside one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from .._views._overlap import has_internal_overlap, overlaps
from .._views._view import View
from ._layout_index import LayoutIndex
from ._tensors import MemoryView

if TYPE_CHECKING:
    from ._operation import Operation


class HazardKind(StrEnum):
    """Why the later of two operations must wait for the earlier one.

    Attributes
    ----------
    RAW
        Read after write: it reads bytes whose present value the earlier one wrote.
    WAR
        Write after read: it overwrites bytes that the earlier one reads.
    WAW
        Write after write: it overwrites bytes whose present value the earlier one wrote.

    Examples
    --------
    >>> HazardKind.RAW == "RAW"
    True
    """

    RAW = "RAW"
    WAR = "WAR"
    WAW = "WAW"


@dataclass(frozen=True)
class Dependency:
    """One edge of a `DependencyGraph`: `later` must not start before `earlier` has ended.

    Attributes
    ----------
    earlier, later : Operation
        The two operations.
    earlier_index, later_index : int
        Their places in the program.
    kind : HazardKind
        RAW, WAR or WAW.
    views : tuple of (view, view)
        Each pair of views, of `earlier` and of `later`, through which they meet.
    """

    earlier: Operation
    later: Operation
    earlier_index: int
    later_index: int
    kind: HazardKind
    views: tuple[tuple[MemoryView, MemoryView], ...]

    @property
    def explicit(self) -> bool:
        """Whether the two meet in one and the same view, handed from one to the other."""
        return any(first is second for first, second in self.views)

    @property
    def implicit(self) -> bool:
        """Whether they meet only through different views whose memory overlaps."""
        return not self.explicit

    def __str__(self) -> str:
        how = "explicit" if self.explicit else "implicit"
        return f"{self.earlier.name} -> {self.later.name} ({self.kind}, {how})"


@dataclass(frozen=True)
class SelfHazard:
    """Two accesses of one operation that touch the same bytes in an order that nobody promises.

    Attributes
    ----------
    operation : str
        Name of the operation.
    written : view
        What it writes.
    other : view
        What it also reads or writes; `written` itself if that overlaps itself.
    other_is : {"read", "write"}
        What it does with `other`.
    """

    operation: str
    written: MemoryView
    other: MemoryView
    other_is: Literal["read", "write"]

    def __str__(self) -> str:
        if self.other is self.written and self.other_is == "write":
            return f"{self.operation}: writes {self.written.name}, which overlaps itself"
        also = "reads" if self.other_is == "read" else "also writes"
        return (
            f"{self.operation}: writes {self.written.name}, which overlaps {self.other.name} "
            f"that it {also}"
        )


class ViewUse(NamedTuple):
    """One view that an operation reads or writes: the argument, and its place in a list of views.

    What is written element for element where it is read has the same place.
    """

    view: MemoryView
    argument: str
    item: int | None = None


def hazards_inside(
    operation: str, reads: Iterable[ViewUse], writes: Iterable[ViewUse], is_elementwise: bool
) -> list[SelfHazard]:
    """Overlaps of different arguments of an operation where one of them is written.

    An argument that is read and written is in both. In an elementwise operation, an input that is
    exactly the output is safe.
    """
    found = []
    # By address space, since in a trace the addresses of every memory start at 0.
    touched: defaultdict[Hashable, LayoutIndex[tuple[ViewUse, bool]]] = defaultdict(LayoutIndex)
    for use in reads:
        layout = use.view.memory.layout()
        if layout is not None:
            touched[use.view.memory.space].add(layout, (use, False))
    for use in writes:
        memory = use.view.memory
        layout = memory.layout()
        if layout is None:
            continue
        if has_internal_overlap(memory):
            found.append(SelfHazard(operation, use.view, use.view, "write"))
        for other, is_written in touched[memory.space].may_meet(layout):
            is_in_place = (
                not is_written
                and is_elementwise
                and other.item == use.item
                and is_same_place(memory, other.view.memory)
            )
            if other[1:] != use[1:] and not is_in_place and overlaps(memory, other.view.memory):
                other_is: Literal["read", "write"] = "write" if is_written else "read"
                found.append(SelfHazard(operation, use.view, other.view, other_is))
        touched[memory.space].add(layout, (use, True))
    return found


def is_same_place(a: View, b: View) -> bool:
    """Whether elements of equal index are the same bytes in both views, whatever the conj bits.

    True also if the two belong to different storages that alias.
    """
    return (a.space, a.address, a.sizes, a.strides, a.itemsize) == (
        b.space, b.address, b.sizes, b.strides, b.itemsize,
    )  # fmt: skip

"""Hazards inside one operation: what it writes overlaps what else it reads or writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from .._views._overlap import has_internal_overlap, overlaps
from .._views._view import View
from ._layout_index import LayoutIndex
from ._tensors import MemoryView

How: TypeAlias = Literal["read", "write"]


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
    other_is: How

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
    uses: list[tuple[ViewUse, How]] = [(use, "read") for use in reads]
    uses += [(use, "write") for use in writes]
    # By address space, since in a trace the addresses of every memory start at 0.
    touched: defaultdict[Hashable, LayoutIndex[tuple[ViewUse, How]]] = defaultdict(LayoutIndex)
    for use, how in uses:
        memory = use.view.memory
        layout = memory.layout()
        if layout is None:
            continue
        others = touched[memory.space]
        if how == "write":
            if has_internal_overlap(memory):
                found.append(SelfHazard(operation, use.view, use.view, "write"))
            for other, other_is in others.may_meet(layout):
                is_in_place = (
                    is_elementwise
                    and other_is == "read"
                    and other.item == use.item
                    and is_same_place(memory, other.view.memory)
                )
                if other[1:] != use[1:] and not is_in_place and overlaps(memory, other.view.memory):
                    found.append(SelfHazard(operation, use.view, other.view, other_is))
        others.add(layout, (use, how))
    return found


def is_same_place(a: View, b: View) -> bool:
    """Whether elements of equal index are the same bytes in both views, whatever the conj bits.

    True also if the two belong to different storages that alias.
    """
    return (a.space, a.address, a.sizes, a.strides, a.itemsize) == (
        b.space, b.address, b.sizes, b.strides, b.itemsize,
    )  # fmt: skip

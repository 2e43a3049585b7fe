"""What a hazard is: between two operations, or inside one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from .._views._overlap import overlaps
from .._views._view import View
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


def is_unsafe_in_place(read: View, written: View) -> bool:
    """Whether two views overlap in another way than element for element.

    Parameters
    ----------
    read, written : View
        What an operation reads, and what it writes.

    Returns
    -------
    bool
        False for disjoint views, and for views whose elements of equal index are the same bytes.
    """
    return not is_same_place(read, written) and overlaps(read, written)


def is_same_place(a: View, b: View) -> bool:
    """Whether elements of equal index are the same bytes in both views.

    Parameters
    ----------
    a, b : View
        Two views; their conj and neg bits do not matter.

    Returns
    -------
    bool
        True also if the two belong to different storages that alias.
    """
    return (a.space, a.address, a.sizes, a.strides, a.itemsize) == (
        b.space, b.address, b.sizes, b.strides, b.itemsize,
    )  # fmt: skip

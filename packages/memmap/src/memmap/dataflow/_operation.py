"""One step of a program: the views that it reads and writes, and the hazards inside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, TypeAlias

from .._views._layout_index import LayoutIndex
from .._views._overlap import has_internal_overlap, overlaps
from .._views._view import View
from ._tensors import MemoryView, check_are_views

AccessKind: TypeAlias = Literal["read", "write"]


@dataclass(frozen=True)
class SelfHazard:
    """Two accesses of one operation to the same bytes whose order is not defined.

    Attributes
    ----------
    operation : str
        Name of the operation.
    written, other : view
        The view that it writes, and another view that it also reads or writes. `other` is
        `written` itself if that view overlaps itself.
    other_is : {"read", "write"}
        Whether the operation reads or writes `other`.
    """

    operation: str
    written: MemoryView
    other: MemoryView
    other_is: AccessKind

    def __str__(self) -> str:
        also = "reads" if self.other_is == "read" else "also writes"
        other = f"{self.other.name} that it {also}"
        if self.other is self.written and self.other_is == "write":
            other = "itself"
        return f"{self.operation}: writes {self.written.name}, which overlaps {other}"


class ViewUse(NamedTuple):
    """One view that an operation reads or writes: the argument, and its place in a list of views.

    If an output is written element by element where an input is read, both have the same place.
    """

    view: MemoryView
    argument: str
    item: int | None = None


class Operation:
    """One step of a program: the views that it reads and the views that it writes.

    An operation reads all inputs before it writes, and writes every element of every output.
    Subclasses define the computation in `execute`.

    Parameters
    ----------
    name : str
        The name to show. It is also the key in `DependencyGraph.as_dict`.

    Attributes
    ----------
    input_views, output_views : list of TensorView
        The views that it reads and writes.

    Examples
    --------
    >>> from memmap.dataflow import Tensor, TensorView
    >>> x = TensorView("x", Tensor("A", (3,)))
    >>> Operation("sort").set_inputs(x).set_outputs(x)
    Operation('sort', reads=['x'], writes=['x'])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.input_views: list[MemoryView] = []
        self.output_views: list[MemoryView] = []

    def set_inputs(self, *views: MemoryView) -> Self:
        """Add views that the operation reads; return the operation, so that calls can be chained.

        Raises `TypeError` for objects that are not views, for example a `Tensor`.
        """
        self.input_views.extend(check_are_views(self.name, views))
        return self

    def set_outputs(self, *views: MemoryView) -> Self:
        """Add views that the operation writes; return the operation, as `set_inputs` does."""
        self.output_views.extend(check_are_views(self.name, views))
        return self

    def execute(self) -> None:
        """Read the inputs, compute, write the outputs. Subclasses must define this."""
        raise NotImplementedError(
            f"{self.name}: execute must be defined by a subclass, got {type(self).__name__}"
        )

    def self_hazards(self) -> tuple[SelfHazard, ...]:
        """Overlaps between the operation's own views for which the order of its steps matters.

        An input that equals the output, element for element, is safe: the operation works in place.
        Hazards are: an input that overlaps an output in another way, two outputs that overlap, and
        an output that overlaps itself. Each pair of views is one hazard.

        Examples
        --------
        >>> from memmap.dataflow import Tensor, TensorView
        >>> tensor = Tensor("A", (8,))
        >>> head, tail = TensorView("head", tensor, 0, (7,)), TensorView("tail", tensor, 1, (7,))
        >>> print(*Operation("shift").set_inputs(head).set_outputs(tail).self_hazards())
        shift: writes tail, which overlaps head that it reads
        """
        reads = [ViewUse(view, f"input {i}") for i, view in enumerate(self.input_views)]
        writes = [ViewUse(view, f"output {i}") for i, view in enumerate(self.output_views)]
        return tuple(hazards_inside(self.name, reads, reversed(writes), is_elementwise=True))

    def __repr__(self) -> str:
        reads = [view.name for view in self.input_views]
        writes = [view.name for view in self.output_views]
        return f"{type(self).__name__}({self.name!r}, {reads=}, {writes=})"


def hazards_inside(
    operation: str, reads: Iterable[ViewUse], writes: Iterable[ViewUse], is_elementwise: bool
) -> list[SelfHazard]:
    """Overlaps between two different arguments of an operation that writes at least one of them.

    An argument that is read and written is in both lists. In an elementwise operation, an input
    that equals the output is safe.
    """
    hazards = []
    uses: list[tuple[ViewUse, AccessKind]] = [(use, "read") for use in reads]
    uses += [(use, "write") for use in writes]
    touched: LayoutIndex[tuple[ViewUse, AccessKind]] = LayoutIndex()
    for use, how in uses:
        memory = use.view.memory
        layout = memory.layout()
        if layout is None:
            continue
        if how == "write":
            if has_internal_overlap(memory):
                hazards.append(SelfHazard(operation, use.view, use.view, "write"))
            for other, other_is in touched.may_meet(memory.space, layout):
                is_in_place = (
                    is_elementwise
                    and other_is == "read"
                    and other.item == use.item
                    and is_same_memory(memory, other.view.memory)
                )
                if other[1:] != use[1:] and not is_in_place and overlaps(memory, other.view.memory):
                    hazards.append(SelfHazard(operation, use.view, other.view, other_is))
        touched.add(memory.space, layout, (use, how))
    return hazards


def is_same_memory(a: View, b: View) -> bool:
    """Whether elements with equal index are the same bytes in both views; ignores the conj bits.

    This is also true if the views belong to different storages that share memory.
    """
    return (a.space, a.address, a.sizes, a.strides, a.itemsize) == (
        b.space, b.address, b.sizes, b.strides, b.itemsize,
    )  # fmt: skip

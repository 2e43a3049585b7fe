"""Operation: one step of a program, and the views that it reads and writes."""

from __future__ import annotations

from typing import Self

from ._hazards import SelfHazard, ViewUse, hazards_inside
from ._tensors import MemoryView, check_are_views


class Operation:
    """One step of a program: the views that it reads and the views that it writes.

    An operation reads every input before it writes, and writes every element of every output.
    Subclasses say in `execute` what is computed.

    Parameters
    ----------
    name : str
        Name to show, and the key in `DependencyGraph.as_dict`.

    Attributes
    ----------
    input_views, output_views : list of TensorView
        What it reads, and what it writes.

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
        """Add views that the operation reads, and return the operation, to chain calls.

        Another object than a view, for example a `Tensor`, is a TypeError.
        """
        self.input_views.extend(check_are_views(self.name, views))
        return self

    def set_outputs(self, *views: MemoryView) -> Self:
        """Add views that the operation writes, as `set_inputs` adds those that it reads."""
        self.output_views.extend(check_are_views(self.name, views))
        return self

    def execute(self) -> None:
        """Read the inputs, compute, write the outputs: defined by a subclass."""
        raise NotImplementedError(
            f"{self.name}: execute must be defined by a subclass, got {type(self).__name__}"
        )

    def self_hazards(self) -> tuple[SelfHazard, ...]:
        """Overlaps between the operation's own views that make the order of its steps matter.

        An input that is exactly the output, element for element, is safe: the operation works in
        place. An input that overlaps an output in another way, two outputs that overlap, and an
        output that overlaps itself are not: a kernel that writes while it reads gives a result
        that depends on how it goes through the elements. Each pair of views is one hazard.

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

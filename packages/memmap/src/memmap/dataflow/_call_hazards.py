"""Overlaps between the arguments of one call of a PyTorch operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from .._views._overlap import has_internal_overlap, overlaps
from ._hazards import SelfHazard, is_same_place
from ._layout_index import LayoutIndex
from ._operators import OperatorUse, TensorArgument
from ._traced import TracedView

_Use: TypeAlias = tuple[TensorArgument, TracedView, bool]
"""An argument, its view, and whether it is written rather than read."""


def call_hazards(
    name: str,
    use: OperatorUse,
    reads: Iterable[tuple[TensorArgument, TracedView]],
    writes: Iterable[tuple[TensorArgument, TracedView]],
) -> list[SelfHazard]:
    """Pairs of arguments that overlap where one of them is written, unless element for element.

    Parameters
    ----------
    name : str
        Name of the operation.
    use : OperatorUse
        What the operator does.
    reads, writes : iterable of (TensorArgument, TracedView)
        Its tensors and where they lie. An in-place operator's ``self`` is in both.

    Returns
    -------
    list of SelfHazard
        Empty, if every order of the elements gives the same result.
    """
    if use.writes_one_value:
        return []
    found = []
    # By address space, since in a trace the addresses of every memory start at 0.
    touched: defaultdict[Hashable, LayoutIndex[_Use]] = defaultdict(LayoutIndex)
    for argument, view in reads:
        layout = view.memory.layout()
        if layout is not None:
            touched[view.memory.space].add(layout, (argument, view, False))
    for written, view in writes:
        place = view.memory
        layout = place.layout()
        if layout is None:
            continue
        if has_internal_overlap(place):
            found.append(SelfHazard(name, view, view, "write"))
        others = touched[place.space]
        for other, other_view, is_written in others.may_meet(layout):
            is_same_argument = (other.name, other.item) == (written.name, written.item)
            if is_same_argument or not overlaps(place, other_view.memory):
                continue
            if is_written:
                found.append(SelfHazard(name, view, other_view, "write"))
            elif not (
                use.is_elementwise
                and other.item == written.item
                and is_same_place(place, other_view.memory)
            ):
                found.append(SelfHazard(name, view, other_view, "read"))
        others.add(layout, (written, view, True))
    return found

"""An index of items by the bytes that they touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Hashable
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

from ._layout import Layout

Item = TypeVar("Item")

_Classes: TypeAlias = dict[tuple[int, int], list[tuple[int, int, Item]]]

_start = itemgetter(0)


class LayoutIndex(Generic[Item]):
    """Items, each with a layout in a space; finds those that may share a byte with another layout.

    Items whose layout repeats with a period, such as columns of a matrix, are stored by their place
    within the period; all others are stored by their span. Items of similar length are sorted by
    start, so that a look-up visits about as many items as it returns.
    """

    __slots__ = ("_spaces",)

    def __init__(self) -> None:
        # By period (0 for spans) and bit length of the length. An interrupt leaves each item
        # completely in a list or not in it.
        self._spaces: dict[Hashable, _Classes[Item]] = {}

    def add(self, space: Hashable, layout: Layout, item: Item) -> None:
        """Add an item."""
        key, start, stop = _key_and_span(layout)
        classes = self._spaces.setdefault(space, {})
        insort_right(classes.setdefault(key, []), (start, stop, item), key=_start)

    def discard(self, space: Hashable, layout: Layout, item: Item) -> None:
        """Remove this item, compared by identity, if it was added with this layout."""
        key, start, _ = _key_and_span(layout)
        entries = self._spaces.get(space, {}).get(key, [])
        first = bisect_left(entries, start, key=_start)
        for number in range(first, bisect_right(entries, start, first, key=_start)):
            if entries[number][2] is item:
                del entries[number]
                return

    def may_meet(self, space: Hashable, layout: Layout) -> list[Item]:
        """Items that may share a byte with a layout, each once. All others share none."""
        items: dict[int, Item] = {}
        for (period, bits), entries in self._spaces.get(space, {}).items():
            for start, stop in _stretches(layout, period):
                first = bisect_right(entries, start - (1 << bits), key=_start)
                for number in range(first, bisect_left(entries, stop, key=_start)):
                    _, item_stop, item = entries[number]
                    if item_stop > start:
                        items[id(item)] = item
        return list(items.values())


def _key_and_span(layout: Layout) -> tuple[tuple[int, int], int, int]:
    """The class, start and stop under which an item is stored."""
    period, count = layout.dims[-1]
    if count > 1 and period > 1:
        start = layout.start % period
        stop = start + _width(layout, period)
        if stop <= period:
            return (period, (stop - start).bit_length()), start, stop
    return (0, (layout.stop - layout.start).bit_length()), layout.start, layout.stop


def _stretches(layout: Layout, period: int) -> list[tuple[int, int]]:
    """The intervals of a period in which a layout may touch a byte."""
    if period == 0:
        return [(layout.start, layout.stop)]
    start = layout.start % period
    stop = start + _width(layout, period)
    if stop - start >= period:
        return [(0, period)]
    return [(start, stop)] if stop <= period else [(start, period), (0, stop - period)]


def _width(layout: Layout, period: int) -> int:
    """Length of the interval of a period that contains all bytes of a layout."""
    step, count = layout.dims[-1]
    length = layout.stop - layout.start
    return length - step * (count - 1) if step == period else length

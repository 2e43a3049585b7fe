"""Items by their span of addresses: which of them can meet a given span?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from operator import itemgetter
from typing import Generic, TypeVar

Item = TypeVar("Item")

_start = itemgetter(0)


class SpanIndex(Generic[Item]):
    """Items, each with a span of addresses; finds those that meet a span without a full scan.

    Items are kept by the power of two of their length, sorted by start. In one such class an item
    that reaches into a span starts at most one length before it, so a look-up visits about as many
    items as it returns, whatever the mixture of lengths.

    Examples
    --------
    >>> index = SpanIndex()
    >>> index.add(0, 100, "whole"), index.add(10, 12, "left"), index.add(90, 95, "right")
    (None, None, None)
    >>> sorted(index.meeting(11, 50))
    ['left', 'whole']
    """

    __slots__ = ("_classes",)

    def __init__(self) -> None:
        # One list for each class: an interrupt finds an item in it or not, and never a part of it.
        self._classes: dict[int, list[tuple[int, int, Item]]] = {}

    def add(self, start: int, stop: int, item: Item) -> None:
        """Add an item.

        Parameters
        ----------
        start, stop : int
            First address and one past the last.
        item : object
            Compared by identity when it is discarded.
        """
        entries = self._classes.setdefault((stop - start).bit_length(), [])
        insort_right(entries, (start, stop, item), key=_start)

    def discard(self, start: int, stop: int, item: Item) -> None:
        """Remove an item, if it is there.

        Parameters
        ----------
        start, stop : int
            The span with which it was added.
        item : object
            The item itself.
        """
        entries = self._classes.get((stop - start).bit_length(), [])
        for place in range(bisect_left(entries, start, key=_start), len(entries)):
            if entries[place][0] != start:
                return
            if entries[place][2] is item:
                del entries[place]
                return

    def meeting(self, start: int, stop: int) -> list[Item]:
        """Items whose span has an address in common with a given one.

        Parameters
        ----------
        start, stop : int
            First address and one past the last.

        Returns
        -------
        list
            In no particular order.
        """
        found = []
        for length_bits, entries in self._classes.items():
            first = bisect_right(entries, start - (1 << length_bits), key=_start)
            for place in range(first, bisect_left(entries, stop, key=_start)):
                _, item_stop, item = entries[place]
                if item_stop > start:
                    found.append(item)
        return found

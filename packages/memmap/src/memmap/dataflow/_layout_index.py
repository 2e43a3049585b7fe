"""Items by the bytes that they touch: which of them may touch a byte of a given layout?"""

from __future__ import annotations

from typing import Generic, TypeVar

from .._views._layout import Layout
from ._spans import SpanIndex

Item = TypeVar("Item")


class LayoutIndex(Generic[Item]):
    """Items, each with a layout; finds those that may share a byte with another layout.

    Spans alone do not tell the columns of a matrix from one another. Items whose layout repeats
    with a period are therefore kept by their place within the period (their columns), all others
    by their span.

    Examples
    --------
    >>> index = LayoutIndex()
    >>> for column in range(3):
    ...     start = 4 * column
    ...     index.add(Layout(start, start + 28, ((1, 4), (12, 3))), column)
    >>> index.may_meet(Layout(4, 32, ((1, 4), (12, 3)))), index.may_meet(Layout(12, 17, ((1, 5),)))
    ([1], [0, 1])
    """

    __slots__ = ("__weakref__", "_by_column", "_by_span")

    def __init__(self) -> None:
        self._by_span: SpanIndex[Item] = SpanIndex()
        self._by_column: dict[int, SpanIndex[Item]] = {}

    def add(self, layout: Layout, item: Item) -> None:
        """Add an item.

        Parameters
        ----------
        layout : Layout
            The bytes it touches.
        item : object
            Compared by identity when it is discarded.
        """
        index, start, stop = self._place(layout)
        index.add(start, stop, item)

    def discard(self, layout: Layout, item: Item) -> None:
        """Remove an item, if it is there.

        Parameters
        ----------
        layout : Layout
            The layout with which it was added.
        item : object
            The item itself.
        """
        index, start, stop = self._place(layout)
        index.discard(start, stop, item)

    def may_meet(self, layout: Layout) -> list[Item]:
        """Items that may share a byte with a layout; those left out certainly share none.

        Parameters
        ----------
        layout : Layout
            Some bytes.

        Returns
        -------
        list
            In no particular order.
        """
        found = self._by_span.meeting(layout.start, layout.stop)
        for period, index in self._by_column.items():
            first = layout.start % period
            past = first + _width(layout, period)
            if past - first >= period:
                found += index.meeting(0, period)
            else:
                met = index.meeting(first, min(past, period))
                if past > period:  # the layout goes on at the start of the next period
                    met += index.meeting(0, past - period)
                    met = list({id(item): item for item in met}.values())
                found += met
        return found

    def _place(self, layout: Layout) -> tuple[SpanIndex[Item], int, int]:
        """Where an item of this layout is kept."""
        period, count = layout.dims[-1]
        if count > 1 and period > 1:
            first = layout.start % period
            past = first + _width(layout, period)
            if past <= period:
                return self._by_column.setdefault(period, SpanIndex()), first, past
        return self._by_span, layout.start, layout.stop


def _width(layout: Layout, period: int) -> int:
    """Length of the stretch of a period outside of which the layout touches nothing."""
    step, count = layout.dims[-1]
    length = layout.stop - layout.start
    return length - step * (count - 1) if step == period else length

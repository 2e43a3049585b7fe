"""Which of many intervals, and which of many boxes, have common points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ._arrays import Bits, Integers

Pairs: TypeAlias = tuple[Integers, Integers]
"""Positions of the first and of the second of each pair."""

# Pairs are found in portions, so that memory follows the pairs that are found.
_PORTION = 1 << 21
_ROWS = 64
# From so many candidates for a box on, they are compared as bits.
_DENSE = 64
_MAX_LEVELS = 256
_MAX_TABLE = 1 << 26


def interval_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of half-open intervals that meet, each once, in time O(n log n + pairs)."""
    order = np.argsort(low, kind="stable")
    # In order of their starts, an interval meets those after it that start before it ends.
    past = np.searchsorted(low[order], high[order], "left")
    n_met = past - np.arange(1, len(low) + 1)
    n_until = np.concatenate([[0], np.cumsum(n_met)])
    start = 0
    while start < len(low):
        stop = max(int(np.searchsorted(n_until, n_until[start] + _PORTION, "right")) - 1, start + 1)
        met = n_met[start:stop]
        first = np.repeat(np.arange(start, stop), met)
        offset = np.arange(n_until[start], n_until[stop]) - np.repeat(n_until[start:stop], met)
        if len(first):
            yield order[first], order[first + 1 + offset]
        start = stop


def n_interval_pairs(low: Integers, high: Integers) -> int:
    """Number of pairs of intervals that meet, in time O(n log n)."""
    # Two intervals do not meet exactly if one of them starts after the other has ended.
    n = len(low)
    n_later = n - np.searchsorted(np.sort(low), high, "left")
    return n * (n - 1) // 2 - int(n_later.sum())


def box_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of boxes that meet, each once; `low` and `high` have the shape (n, axes).

    The boxes are swept along the axis along which fewest meet. Where many meet along it, all axes
    are compared at once, by bits.
    """
    n, n_axes = low.shape
    costs = [n_interval_pairs(low[:, axis], high[:, axis]) for axis in range(n_axes)]
    sweep = min(range(n_axes), key=costs.__getitem__)
    others = [axis for axis in range(n_axes) if axis != sweep and costs[axis] < n * (n - 1) // 2]
    low, high = low[:, [sweep, *others]], high[:, [sweep, *others]]
    if others and costs[sweep] > _DENSE * n:
        candidates = _pairs_by_bits(low, high)
    else:
        candidates = interval_pairs(low[:, 0], high[:, 0])
    for first, second in candidates:
        for begin, end in zip(low.T, high.T, strict=True):
            met = (begin[first] < end[second]) & (begin[second] < end[first])
            first, second = first[met], second[met]
        if len(first):
            yield first, second


def _pairs_by_bits(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of boxes that may meet: for each box one bit for each that follows it in the sweep."""
    order = np.argsort(low[:, 0], kind="stable")
    low, high = low[order], high[order]
    past = np.searchsorted(low[:, 0], high[:, 0], "left")
    tables = [_before(*sides) for sides in zip(low.T, high.T, strict=True)]
    tables += [_before(-end, -begin) for begin, end in zip(low.T, high.T, strict=True)]
    for start in range(0, len(low), _ROWS):
        rows = slice(start, start + _ROWS)
        columns = slice(start // 8, int(past[rows].max()) // 8 + 1)
        met = np.full((len(past[rows]), len(tables[0][0][0, columns])), 255, np.uint8)
        for table, row in tables:
            met &= table[row[rows], columns]
        byte = np.flatnonzero(met)
        at, bit = np.nonzero(np.unpackbits(met.ravel()[byte, None], axis=1, bitorder="little"))
        row, column = np.divmod(byte[at], met.shape[1])
        first, second = start + row, 8 * (columns.start + column) + bit
        later = second > first
        yield order[first[later]], order[second[later]]


def _before(low: Integers, high: Integers) -> tuple[Bits, Integers]:
    """Bits of the intervals that start before a place; and for the end of each a row of them.

    There are rows for some of the ends only, so that a row may have bits of a few more intervals.
    """
    ends = np.unique(high)
    n_levels = min(_MAX_LEVELS, max(_MAX_TABLE // len(low), 2))
    ends = np.flip(np.flip(ends)[:: len(ends) // n_levels + 1])
    return np.packbits(low < ends[:, None], axis=1, bitorder="little"), np.searchsorted(ends, high)

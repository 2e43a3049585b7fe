"""Which of many intervals, and which of many boxes, have common points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ._arrays import Integers
from ._bits import box_pairs_by_bits

Pairs: TypeAlias = tuple[Integers, Integers]
"""Positions of the first and of the second of each pair."""

# Candidates are listed and tested in portions, so that memory follows the pairs that are found.
_PORTION = 1 << 21
# To compare two boxes takes as long as this many bits.
_BITS = 500
_MAX_BITS = 1 << 28


def interval_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of intervals that meet.

    Parameters
    ----------
    low, high : numpy.ndarray
        int64, shape (n,): half-open intervals, none empty.

    Yields
    ------
    tuple of numpy.ndarray
        Each unordered pair once, in portions; in all in time O(n log n + pairs).

    Examples
    --------
    >>> portions = interval_pairs(np.array([0, 4, 2]), np.array([3, 9, 5]))
    >>> [list(zip(first.tolist(), second.tolist())) for first, second in portions]
    [[(0, 2), (2, 1)]]
    """
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
    """Number of pairs of intervals that meet, without listing them.

    Parameters
    ----------
    low, high : numpy.ndarray
        As for `interval_pairs`.

    Returns
    -------
    int
        The number, in time O(n log n).

    Examples
    --------
    >>> n_interval_pairs(np.array([0, 4, 2]), np.array([3, 9, 5]))
    2
    """
    # Two intervals do not meet exactly if one of them starts after the other has ended.
    n = len(low)
    n_later = n - np.searchsorted(np.sort(low), high, "left")
    return n * (n - 1) // 2 - int(n_later.sum())


def box_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of boxes that meet.

    The boxes are sorted into cells, as many per axis as make a cell about as wide as a box, and
    only those in one cell are compared: boxes of like size, wherever they are, cost
    O(n log n + pairs). Where most boxes of a cell meet along one axis and few along all, it is
    faster to compare all boxes with all, a bit for each pair and axis.

    Parameters
    ----------
    low, high : numpy.ndarray
        int64, shape (n, axes): half-open intervals, none empty.

    Yields
    ------
    tuple of numpy.ndarray
        Each unordered pair once, in portions.

    Examples
    --------
    >>> low, high = np.array([[0, 0], [1, 1], [1, 5]]), np.array([[2, 2], [3, 3], [4, 6]])
    >>> [list(zip(first.tolist(), second.tolist())) for first, second in box_pairs(low, high)]
    [[(0, 1)]]
    """
    n, n_axes = low.shape
    all_pairs = n * (n - 1) // 2
    cost = [n_interval_pairs(low[:, axis], high[:, axis]) for axis in range(n_axes)]
    axes = sorted((axis for axis in range(n_axes) if cost[axis] < all_pairs), key=cost.__getitem__)
    if not axes:
        axes = [0]
    # Positions among the sorted lower ends: meeting is the same there, and they are evenly spread.
    ends = [np.sort(low[:, axis]) for axis in axes]
    low = np.stack([np.searchsorted(e, low[:, a]) for e, a in zip(ends, axes, strict=True)], 1)
    high = np.stack([np.searchsorted(e, high[:, a]) for e, a in zip(ends, axes, strict=True)], 1)
    n_cells = _cells(low, high, cost[axes[0]])
    first_cell = low[:, 1:] * n_cells // n
    last_cell = (high[:, 1:] - 1) * n_cells // n
    box, cell = _spread(first_cell, last_cell, n_cells)
    line = cell * (n + 1)
    # One axis after the other, each in memory of its own, for fewer and fewer candidates.
    sides = [(low[:, axis].copy(), high[:, axis].copy()) for axis in range(1, len(axes))]
    starts, stops = line + low[box, 0], line + high[box, 0]
    if n_interval_pairs(starts, stops) * _BITS > n * n * len(axes):
        n_values = sum(np.unique(x).size for x in (*low.T, *high.T))
        if n_values * n <= _MAX_BITS:
            yield from box_pairs_by_bits(low, high)
            return
    for a, b in interval_pairs(starts, stops):
        first, second, where = box[a], box[b], cell[a]
        for begin, end in sides:
            met = (begin[first] < end[second]) & (begin[second] < end[first])
            first, second, where = first[met], second[met], where[met]
        # A pair is met in every cell that both are in: count it in that of their lower corner.
        corner = np.maximum(first_cell[first], first_cell[second])
        here = _number(corner, n_cells) == where
        if here.any():
            yield first[here], second[here]


def _cells(low: Integers, high: Integers, cost: int) -> Integers:
    """Number of cells for each axis but the first, along which the boxes of a cell are swept."""
    n, n_axes = low.shape
    if cost < 32 * n:
        return np.ones(n_axes - 1, np.int64)
    widths = (high - low)[:, 1:].mean(axis=0)
    cells = np.clip(n / np.maximum(widths, 1.0), 1.0, None)
    excess = cells.prod() / n
    if excess > 1:
        cells = np.clip(cells / excess ** (1 / len(cells)), 1.0, None)
    whole: Integers = cells.astype(np.int64)
    return whole


def _spread(first: Integers, last: Integers, n_cells: Integers) -> Pairs:
    """Every box in every cell that it reaches: positions of boxes, numbers of cells."""
    n, n_axes = first.shape
    box = np.arange(n)
    cell = np.zeros(n, np.int64)
    for axis in range(n_axes):
        reached = last[box, axis] - first[box, axis] + 1
        n_until = np.cumsum(reached) - reached
        offset = np.arange(reached.sum()) - np.repeat(n_until, reached)
        cell = np.repeat(cell * n_cells[axis] + first[box, axis], reached) + offset
        box = np.repeat(box, reached)
    return box, cell


def _number(corner: Integers, n_cells: Integers) -> Integers:
    number = np.zeros(len(corner), np.int64)
    for axis in range(corner.shape[1]):
        number = number * n_cells[axis] + corner[:, axis]
    return number

"""Which of many boxes meet, where many do: for each box one bit for each of the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ._arrays import Bits, Integers

# Rows that are worked on at once: what they need stays in the cache.
_PORTION = 1 << 19


def box_pairs_by_bits(low: Integers, high: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Pairs of boxes that meet, in time and memory O(axes n^2 / 8) and O(n values / 8).

    Parameters
    ----------
    low, high : numpy.ndarray
        int64, shape (n, axes): half-open intervals, none empty.

    Yields
    ------
    tuple of numpy.ndarray
        Positions ``first < second`` of each pair, ascending, in portions.

    Examples
    --------
    >>> low, high = np.array([[0, 0], [1, 1], [1, 5]]), np.array([[2, 2], [3, 3], [4, 6]])
    >>> [[x.tolist() for x in portion] for portion in box_pairs_by_bits(low, high)]
    [[[0], [1]]]
    """
    n, n_axes = low.shape
    tables = [_tables(low[:, axis], high[:, axis]) for axis in range(n_axes)]
    start = 0
    while start < n:
        from_byte = start // 8
        width = tables[0][0].shape[1] - from_byte
        stop = min(n, start + max(_PORTION // width, 1))
        met = np.full((stop - start, width), 255, np.uint8)
        for before, before_row, after, after_row in tables:
            met &= before[before_row[start:stop], from_byte:]
            met &= after[after_row[start:stop], from_byte:]
        byte = np.flatnonzero(met)
        at, bit = np.nonzero(np.unpackbits(met.ravel()[byte, None], axis=1, bitorder="little"))
        row, column = np.divmod(byte[at], width)
        first, second = start + row, 8 * (from_byte + column) + bit
        later = second > first
        if later.any():
            yield first[later], second[later]
        start = stop


def _tables(low: Integers, high: Integers) -> tuple[Bits, Integers, Bits, Integers]:
    """Bits of the intervals that start before a place, and of those that end after one.

    Each with the row that is meant for every interval.
    """
    starts, start_row = np.unique(low, return_inverse=True)
    ends, end_row = np.unique(-high, return_inverse=True)
    before, after = _accumulated(start_row, len(starts)), _accumulated(end_row, len(ends))
    return before, np.searchsorted(starts, high) - 1, after, np.searchsorted(ends, -low) - 1


def _accumulated(row: Integers, n_rows: int) -> Bits:
    """Table in which row r has the bits of all that are in it or in a row before it."""
    n = len(row)
    table = np.zeros((n_rows, -(-n // 8)), np.uint8)
    place = np.arange(n)
    np.bitwise_or.at(table, (row, place >> 3), np.left_shift(1, place & 7).astype(np.uint8))
    np.bitwise_or.accumulate(table, axis=0, out=table)
    return table

"""Sets of bytes as boxes of a common grid, and which of many boxes meet.

Slices of one tensor step along the same few strides. If each of these strides divides the next,
every address has digits, one for each stride, and a slice is a box: all addresses whose digits
lie in given intervals. Two boxes have a common byte exactly if all their intervals meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ._arrays import Booleans, Integers
from ._layout import Layout

# More digits than this, and the strides are not those of one tensor.
_MAX_AXES = 12


class Boxes(NamedTuple):
    """Boxes of a grid.

    Attributes
    ----------
    low, high : numpy.ndarray
        int64, shape (n, axes): the interval of each digit, `high` exclusive.
    is_box : numpy.ndarray
        bool, shape (n,): whether a set is this box, and not only some bytes in it.
    """

    low: Integers
    high: Integers
    is_box: Booleans


def boxes_of(layouts: Sequence[Layout], origin: int) -> Boxes | None:
    """Sets of bytes as boxes of the grid that their strides span.

    Parameters
    ----------
    layouts : sequence of Layout
        At least one.
    origin : int
        Address whose digits are all 0.

    Returns
    -------
    Boxes or None
        None if the strides do not divide one another.

    Examples
    --------
    >>> row, column = Layout(8, 12, ((1, 4),)), Layout(1, 10, ((4, 3),))
    >>> boxes = boxes_of([row, column], 0)
    >>> boxes.low.tolist(), boxes.high.tolist()
    ([[0, 2], [1, 0]], [[4, 3], [2, 3]])
    """
    strides = sorted({1}.union(*[[stride for stride, _ in dims] for _, _, dims in layouts]))
    if len(strides) > _MAX_AXES or any(after % stride for stride, after in pairwise(strides)):
        return None
    ratios = [after // stride for stride, after in pairwise(strides)]
    axis_of = {stride: axis for axis, stride in enumerate(strides)}
    counts = np.ones((len(layouts), len(strides)), np.int64)
    rows, columns, values = [], [], []
    for row, (_, _, dims) in enumerate(layouts):
        for stride, count in dims:
            rows.append(row)
            columns.append(axis_of[stride])
            values.append(count)
    counts[rows, columns] = values
    low = np.empty_like(counts)
    rest = np.array([layout[0] for layout in layouts], np.int64) - origin
    for axis in range(len(strides) - 1, -1, -1):
        low[:, axis], rest = np.divmod(rest, strides[axis])
    is_box = np.ones(len(layouts), np.bool_)
    for axis, ratio in enumerate(ratios):
        # A dimension that fills whole turns of a digit goes on in the next digit, in which a
        # normal form has no dimension then: it would be one with this.
        turns = (low[:, axis] == 0) & (counts[:, axis] % ratio == 0) & (counts[:, axis] > ratio)
        counts[turns, axis + 1] = counts[turns, axis] // ratio
        counts[turns, axis] = ratio
        is_box &= low[:, axis] + counts[:, axis] <= ratio
    return Boxes(low, low + counts, is_box)

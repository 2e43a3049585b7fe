"""Sets of bytes as boxes of a common grid.

Slices of one tensor step along the same few strides. If each of these strides divides the next,
every address has digits, one for each stride, and a slice is a box: all addresses whose digits
lie in given intervals. Two boxes have a common byte exactly if all their intervals meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ._arrays import Booleans, Integers
from ._layout import Layout

_MAX_AXES = 12


class Boxes(NamedTuple):
    """Boxes of a grid whose strides ascend from 1.

    `origin` is the address whose digits are all 0. The interval of each digit is in `low` and
    `high` (exclusive), of shape (n, axes); `is_box` tells whether a set fills its box.
    """

    origin: int
    strides: Sequence[int]
    low: Integers
    high: Integers
    is_box: Booleans


def boxes_of(
    layouts: Sequence[Layout], origins: Iterable[int], strides: Sequence[int] = ()
) -> Boxes:
    """The smallest boxes around some sets of bytes; the origin gives as many boxes as possible.

    By default, the strides of the grid are frequent ones that divide one another. Of other strides,
    a box has no meaning where `is_box` is False.
    """
    strides = strides or _grid_strides(layouts)
    axis_of = {stride: axis for axis, stride in enumerate(strides)}
    counts = np.ones((len(layouts), len(strides)), np.int64)
    in_grid = np.ones(len(layouts), np.bool_)
    for row, (_, _, dims) in enumerate(layouts):
        for stride, count in dims:
            if stride in axis_of:
                counts[row, axis_of[stride]] += count - 1
            else:
                counts[row, 0] += stride * (count - 1)  # with all bytes between
                in_grid[row] = False
    start = np.array([layout[0] for layout in layouts], np.int64)
    candidates = [
        Boxes(origin, strides, *_digits(start - origin, counts.copy(), strides, in_grid.copy()))
        for origin in dict.fromkeys(origins)
    ]
    return max(candidates, key=lambda boxes: int(boxes.is_box.sum()))


def _grid_strides(layouts: Iterable[Layout]) -> list[int]:
    """Strides that divide one another, including 1; frequent strides are chosen first."""
    frequent = Counter([stride for _, _, dims in layouts for stride, _ in dims])
    kept = [1]
    for stride, _ in frequent.most_common():
        if len(kept) < _MAX_AXES and all(
            stride != other and max(stride, other) % min(stride, other) == 0 for other in kept
        ):
            kept.append(stride)
    return sorted(kept)


def _digits(
    rest: Integers, counts: Integers, strides: Sequence[int], is_box: Booleans
) -> tuple[Integers, Integers, Booleans]:
    """Intervals of the digits of sets that start at `rest`, and which of the sets are boxes."""
    low, reach = np.empty_like(counts), np.zeros(len(counts), np.int64)
    for axis in range(len(strides) - 1, -1, -1):
        low[:, axis], rest = np.divmod(rest, strides[axis])
    for axis, (stride, after) in enumerate(pairwise(strides)):
        ratio, remainder = divmod(after, stride)
        last = low[:, axis] + counts[:, axis] - 1
        wraps = reach + stride * last >= after
        # Full turns of a digit continue in the next digit. In normal form that digit then has no
        # dimension of its own, because it would be merged with this one.
        is_full = (low[:, axis] == 0) & (counts[:, axis] % ratio == 0) & (remainder == 0)
        is_box &= ~wraps | is_full
        counts[:, axis + 1] += np.where(wraps, last // ratio, 0)
        low[wraps, axis], counts[wraps, axis] = 0, ratio
        reach += stride * (low[:, axis] + counts[:, axis] - 1)
    return low, low + counts, is_box

"""All overlapping pairs of many tensors, exactly, in about the time it takes to list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch

from ._address import by_space
from ._arrays import Array, Booleans, Integers
from ._grid import grid_of, products_of
from ._layout import Layout
from ._overlap import layouts_overlap
from ._view import View

Pairs: TypeAlias = tuple[Integers, Integers]
"""Positions of the first and of the second of each pair."""

# Pairs are found in portions, so that the memory grows only with the pairs that are found.
_PORTION = 1 << 21


def overlapping_pairs(
    tensors: Iterable[torch.Tensor | Array | View],
) -> list[tuple[int, int]]:
    """Positions ``i < j``, ascending, of tensors that share at least one byte, exactly."""
    spaces = by_space(tensors)
    pairs = [np.empty(0, np.int64)]
    n = 1 + max((spans[-1][0] for spans in spaces.values()), default=0)
    for spans in spaces.values():
        positions, addresses, layouts = zip(*spans, strict=True)
        where = np.array(positions)
        for first, second in layout_pairs(layouts, min(addresses)):
            first, second = where[first], where[second]
            pairs.append(np.minimum(first, second) * n + np.maximum(first, second))
    first, second = np.divmod(np.sort(np.concatenate(pairs)), n)
    numbers = np.arange(n).astype(np.object_)  # one integer object per position, used in many pairs
    return list(zip(numbers[first].tolist(), numbers[second].tolist(), strict=True))


def layout_pairs(layouts: Sequence[Layout], origin: int) -> Iterator[Pairs]:
    """Pairs of overlapping sets of bytes, each once; `origin` is the start of a storage."""
    grid = _grid_of_most(layouts)
    low, high, is_box = _hulls(layouts, origin, grid)
    if not is_box.all():
        others = _hulls(layouts, min([layout.start for layout in layouts]), grid)
        low, high, is_box = max((low, high, is_box), others, key=lambda hulls: int(hulls[2].sum()))
    for first, second in box_pairs(low, high):
        met = is_box[first] & is_box[second]
        unsure = np.flatnonzero(~met)
        asked = zip(first[unsure].tolist(), second[unsure].tolist(), strict=True)
        met[unsure] = [layouts_overlap(layouts[a], layouts[b]) for a, b in asked]
        if met.any():
            yield first[met], second[met]


def _grid_of_most(layouts: Sequence[Layout]) -> list[int]:
    """A grid of the sets with frequent steps, because one step beside a grid may leave no other."""
    n_uses = Counter([stride for layout in layouts for stride, _ in layout.dims if stride > 1])
    rare = {stride for stride, n in n_uses.items() if 8 * n < max(n_uses.values())}
    return grid_of(layout for layout in layouts if not any(s in rare for s, _ in layout.dims))


def _hulls(
    layouts: Sequence[Layout], origin: int, grid: Sequence[int]
) -> tuple[Integers, Integers, Booleans]:
    """The smallest boxes of a grid around sets of bytes, and which of the sets fill theirs."""
    ends: list[list[tuple[int, int]]] = []
    is_box: list[bool] = []
    for layout in layouts:
        start, stop = layout.start - origin, layout.stop - origin
        products = products_of(start, layout.dims, grid)
        if products is None:
            *below, period = grid
            ends.append([(0, grid[-1])] * len(below) + [(start // period, -(-stop // period))])
        else:
            digits = [*zip(*products, strict=True)]
            ends.append([(min(one)[0], max(d.stop for d in one)) for one in digits])
        is_box.append(
            products is not None and len(products) == 1 and all(d.is_run for d in products[0])
        )
    low, high = np.moveaxis(np.array(ends, np.int64), -1, 0)
    return low, high, np.array(is_box)


def interval_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of half-open intervals that meet, each once, in time O(n log n + pairs)."""
    order = np.argsort(low, kind="stable")
    # Sorted by start, an interval meets the ones after it that start before it ends.
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
    # Two intervals are disjoint exactly if one starts at or after the end of the other.
    n = len(low)
    n_later = n - np.searchsorted(np.sort(low), high, "left")
    return n * (n - 1) // 2 - int(n_later.sum())


def box_pairs(low: Integers, high: Integers) -> Iterator[Pairs]:
    """Pairs of boxes, of shape (n, axes), that meet, by a sweep along the most selective axis."""
    n, n_axes = low.shape
    costs = [n_interval_pairs(low[:, axis], high[:, axis]) for axis in range(n_axes)]
    sweep = min(range(n_axes), key=costs.__getitem__)
    others = [axis for axis in range(n_axes) if axis != sweep and costs[axis] < n * (n - 1) // 2]
    for first, second in interval_pairs(low[:, sweep], high[:, sweep]):
        for begin, end in zip(low.T[others], high.T[others], strict=True):
            met = (begin[first] < end[second]) & (begin[second] < end[first])
            first, second = first[met], second[met]
        if len(first):
            yield first, second

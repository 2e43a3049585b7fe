"""Which of many tensors overlap: all pairs, exactly, in about the time it takes to list them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import torch

from ._address import places_of
from ._arrays import Array, Booleans, Integers
from ._boxes import Boxes, boxes_of
from ._join import Pairs, box_pairs, interval_pairs, n_interval_pairs
from ._layout import Layout
from ._overlap import layouts_overlap
from ._runs import layout_runs
from ._view import View


def overlapping_pairs(
    tensors: Iterable[torch.Tensor | Array | View],
) -> list[tuple[int, int]]:
    """Pairs of tensors that share at least one byte, exactly.

    Slices of one tensor are boxes of a grid and are joined as such; others by the cheaper of two
    ways: their runs of bytes are joined, or those whose bounds meet are asked one by one. For N
    views of one storage the time is about that of sorting N and of listing the pairs.

    Parameters
    ----------
    tensors : iterable of torch.Tensor, numpy.ndarray or View
        Strided tensors, on any devices.

    Returns
    -------
    list of (int, int)
        Positions ``i < j``, ascending.

    Raises
    ------
    TypeError
        If an argument has no strided memory (see `view_of`).
    ValueError
        If an element lies outside its storage.

    Examples
    --------
    >>> x = torch.zeros(4, 4)
    >>> overlapping_pairs([x[0], x[1], x[:, 0], torch.zeros(2)])
    [(0, 2), (1, 2)]
    """
    spaces: dict[Hashable, tuple[list[int], list[Layout], set[int]]] = {}
    for position, space, address, layout in places_of(tensors):
        positions, layouts, origins = spaces.setdefault(space, ([], [], set()))
        positions.append(position)
        layouts.append(layout)
        origins.add(address)
    found = [np.empty(0, np.int64)]
    n = 1 + max((positions[-1] for positions, _, _ in spaces.values()), default=0)
    for positions, layouts, origins in spaces.values():
        where = np.array(positions)
        for first, second in layout_pairs(layouts, min(origins)):
            first, second = where[first], where[second]
            found.append(np.minimum(first, second) * n + np.maximum(first, second))
    first, second = np.divmod(np.sort(np.concatenate(found)), n)
    numbers = np.arange(n).astype(np.object_)  # one object for each position, in many pairs
    return list(zip(numbers[first].tolist(), numbers[second].tolist(), strict=True))


# Microseconds: to ask one pair, to make one run, to compare two runs.
_ASK, _MAKE_RUN, _COMPARE_RUNS = 3.0, 0.2, 0.1
_MAX_RUNS = 1 << 24


def layout_pairs(layouts: Sequence[Layout], origin: int) -> Iterator[Pairs]:
    """Pairs of sets of bytes of one address space that overlap.

    Parameters
    ----------
    layouts : sequence of Layout
        The sets.
    origin : int
        Address from which slices of one tensor are best counted: the start of its storage.

    Yields
    ------
    tuple of numpy.ndarray
        Positions; each unordered pair once, in portions.
    """
    start = np.array([layout[0] for layout in layouts], np.int64)
    stop = np.array([layout[1] for layout in layouts], np.int64)
    if all([layout.is_run for layout in layouts]):
        yield from interval_pairs(start, stop)
        return
    boxes = _best_boxes(layouts, (origin, int(start.min())))
    is_box = np.zeros(len(layouts), np.bool_) if boxes is None else boxes.is_box
    if boxes is not None and is_box.any():
        where = np.flatnonzero(is_box)
        for first, second in box_pairs(boxes.low[where], boxes.high[where]):
            yield where[first], where[second]
    if not is_box.all():
        yield from _other_pairs(layouts, start, stop, ~is_box)


def _best_boxes(layouts: Sequence[Layout], origins: Iterable[int]) -> Boxes | None:
    """Boxes counted from the origin with which most layouts are boxes."""
    best = None
    for origin in origins:
        boxes = boxes_of(layouts, origin)
        if boxes is None or boxes.is_box.all():
            return boxes
        if best is None or boxes.is_box.sum() > best.is_box.sum():
            best = boxes
    return best


def _other_pairs(
    layouts: Sequence[Layout], start: Integers, stop: Integers, is_other: Booleans
) -> Iterator[Pairs]:
    """Pairs of which at least one is no box, in the way that promises to take less time."""
    n_candidates = _n_candidates(start, stop, is_other)
    n_runs = sum(layout.n_points // layout.dims[0][1] for layout in layouts)
    # Expanding into runs touches all layouts, even those that meet nothing.
    if n_runs <= _MAX_RUNS and n_runs * _MAKE_RUN < n_candidates * _ASK:
        runs = [layout_runs(layout) for layout in layouts]
        owner = np.repeat(np.arange(len(layouts)), [len(part) for part in runs])
        low, high = np.concatenate(runs).T
        if n_interval_pairs(low, high) * _COMPARE_RUNS < n_candidates * _ASK:
            yield from _run_pairs(low, high, owner, is_other)
            return
    for first, second in _candidates(start, stop, is_other):
        asked = zip(first.tolist(), second.tolist(), strict=True)
        met = np.array([layouts_overlap(layouts[a], layouts[b]) for a, b in asked], np.bool_)
        if met.any():
            yield first[met], second[met]


def _n_candidates(start: Integers, stop: Integers, is_other: Booleans) -> int:
    """Number of pairs whose bounds meet and of which at least one is no box."""
    return n_interval_pairs(start, stop) - n_interval_pairs(start[~is_other], stop[~is_other])


def _candidates(start: Integers, stop: Integers, is_other: Booleans) -> Iterator[Pairs]:
    for first, second in interval_pairs(start, stop):
        kept = is_other[first] | is_other[second]
        if kept.any():
            yield first[kept], second[kept]


def _run_pairs(
    low: Integers, high: Integers, owner: Integers, is_other: Booleans
) -> Iterator[Pairs]:
    """Pairs of owners of runs that meet."""
    n = len(is_other)
    keys = [np.empty(0, np.int64)]
    for first, second in interval_pairs(low, high):
        first, second = owner[first], owner[second]
        kept = (first != second) & (is_other[first] | is_other[second])
        first, second = first[kept], second[kept]
        keys.append(np.unique(np.minimum(first, second) * n + np.maximum(first, second)))
    first, second = np.divmod(np.unique(np.concatenate(keys)), n)
    if len(first):
        yield first, second

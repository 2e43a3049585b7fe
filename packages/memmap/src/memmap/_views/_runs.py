"""Sets of integers as sorted runs: union and intersection.

Runs are an int64 array of shape (n, 2): start and stop (exclusive) of every run, ascending, with
a gap between one run and the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ._arrays import Integers
from ._layout import Layout

T = TypeVar("T", bound=tuple[Any, ...])

Runs: TypeAlias = Integers


def connected_intervals(items: Iterable[T]) -> Iterator[list[T]]:
    """Groups of tuples (start, stop, ...) whose intervals meet, directly or through others."""
    component: list[T] = []
    reach = 0
    for item in sorted(items, key=itemgetter(0)):
        start, stop = item[:2]
        if component and start >= reach:
            yield component
            component = []
        component.append(item)
        reach = max(reach, stop, start + 1)
    if component:
        yield component


def merge(runs: Runs) -> Runs:
    """Union of runs that may be unsorted, overlap or touch."""
    if len(runs) < 2:
        return runs
    start, stop = runs[np.argsort(runs[:, 0], kind="stable")].T
    stop = np.maximum.accumulate(stop)
    first = np.flatnonzero(np.concatenate([[True], start[1:] > stop[:-1]]))
    last = np.append(first[1:] - 1, start.size - 1)
    return np.stack([start[first], stop[last]], axis=1)


def intersect(a: Runs, b: Runs) -> Runs:
    """Integers that belong to both of two sets of runs."""
    # For every run of a, the runs of b that meet it are consecutive.
    first = np.searchsorted(b[:, 1], a[:, 0], "right")
    past = np.searchsorted(b[:, 0], a[:, 1], "left")
    n_met = np.maximum(past - first, 0)
    which_a = np.repeat(np.arange(len(a)), n_met)
    before = np.cumsum(n_met) - n_met
    which_b = np.arange(n_met.sum()) - np.repeat(before - first, n_met)
    start = np.maximum(a[which_a, 0], b[which_b, 0])
    stop = np.minimum(a[which_a, 1], b[which_b, 1])
    return np.stack([start, stop], axis=1)


def layout_runs(layout: Layout) -> Runs:
    """Runs of the bytes of a layout."""
    (stride, count), *outer = layout.dims
    if stride != 1:
        (stride, count), outer = (1, 1), [*layout.dims]
    runs = np.array([[layout.start, layout.start + count]], np.int64)
    for stride, count in outer:
        reach = int(runs[-1, 1]) - layout.start
        if stride > reach:
            moves = stride * np.arange(count, dtype=np.int64)
            runs = (moves[:, None, None] + runs).reshape(-1, 2)
        else:
            done = 1
            while done < count:
                # Join overlapping runs at once, so that the work depends on the runs that are left.
                more = min(done, count - done)
                runs = merge(np.concatenate([runs, runs + stride * more]))
                done += more
    return runs


def union_runs(layouts: Iterable[Layout]) -> Runs:
    """Runs of the bytes of some layouts together."""
    runs = [layout_runs(layout) for layout in layouts]
    return merge(np.concatenate(runs)) if runs else np.empty((0, 2), np.int64)


def n_bytes(runs: Runs) -> int:
    """Number of integers in runs that do not overlap."""
    return int((runs[:, 1] - runs[:, 0]).sum())

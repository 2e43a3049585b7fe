"""How many bytes some sets of bytes touch, alone and together: exact counts in three ways.

1. Slices of one tensor are boxes of a grid. Only the places where a box begins or ends matter: they
   cut the grid into at most `MAX_CELLS` cells, however large the tensor, and prefix sums over the
   cells count everything.
2. Sets that step over gaps in other ways are painted into a bitmap of their common span, a byte for
   each grain: the largest block of bytes that is always touched as a whole.
3. Sets whose elements overlap one another, or that are few in a large span, are expanded into their
   runs, which are sorted: 16 bytes for each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Protocol

import numpy as np

from ._arrays import Array
from ._boxes import Boxes, boxes_of
from ._layout import Layout, normalise, run_layout
from ._runs import Runs, intersect, layout_runs, merge, n_bytes

MAX_CELLS = 1 << 22  # and corners of boxes
# A run costs two int64 and a sort, a grain one byte of a bitmap.
_RUN = 32


class Coverage(Protocol):
    """What some sets of bytes touch together."""

    @property
    def touched(self) -> int:
        """Bytes that are in at least one set."""

    @property
    def shared(self) -> int:
        """Bytes that are in at least two sets, or in one that counts twice."""

    def shared_of(self) -> list[int]:
        """For each set, how many of its bytes are shared."""

    def shared_part(self) -> list[Layout]:
        """The bytes that are shared, as sets of which no two overlap."""


def coverage_of(
    layouts: Sequence[Layout], origin: int | None = None, twice: Sequence[bool] = ()
) -> Coverage:
    """Count how often bytes are touched.

    Parameters
    ----------
    layouts : sequence of Layout
        At least one.
    origin : int, optional
        Address from which slices of one tensor are best counted: the start of their storage.
    twice : sequence of bool, optional
        For each set, whether it counts as two; by default, none does.

    Returns
    -------
    Coverage
        Exact.

    Examples
    --------
    >>> column = Layout(0, 37, ((1, 2), (5, 8)))
    >>> coverage = coverage_of([column, column._replace(start=1, stop=38)])
    >>> coverage.touched, coverage.shared, coverage.shared_of(), coverage.shared_part()
    (24, 8, [8, 8], [Layout(start=1, stop=37, dims=((5, 8),))])
    """
    weights = [1 + double for double in twice] or [1] * len(layouts)
    start = min(layout.start for layout in layouts)
    for zero in (start,) if origin is None else (origin, start):
        boxes = boxes_of(layouts, zero)
        if boxes is not None and boxes.is_box.all():
            cells = _Cells(layouts, zero, boxes, weights)
            if cells.work <= MAX_CELLS:
                return cells
    stop = max(layout.stop for layout in layouts)
    grain = _grain(layouts, start)
    n_runs = sum(_n_runs(layout) for layout in layouts)
    # Where elements overlap, bits that are painted say nothing about how often.
    nested = all(layout.is_nested for layout in layouts)
    if nested and _RUN * n_runs > (stop - start) // grain:
        return _Painting(layouts, start, stop, grain, weights)
    return _SortedRuns(layouts, weights)


def n_touched(layouts: Sequence[Layout]) -> int:
    """Number of bytes in a union of sets.

    Parameters
    ----------
    layouts : sequence of Layout
        At least one.

    Returns
    -------
    int
        Exact.

    Examples
    --------
    >>> n_touched([Layout(0, 4, ((1, 4),)), Layout(2, 7, ((2, 3),))])
    6
    """
    if len(layouts) == 1 and layouts[0].is_nested:
        return layouts[0].n_points
    return coverage_of(layouts).touched


class _Cells:
    """Sets that are boxes, counted in the cells between the places where boxes begin or end."""

    def __init__(
        self, layouts: Sequence[Layout], origin: int, boxes: Boxes, weights: Sequence[int]
    ) -> None:
        self._origin = origin
        self._weights = weights
        strides = sorted({1}.union(*[[stride for stride, _ in dims] for _, _, dims in layouts]))
        self._axes: list[tuple[int, Array]] = []  # stride and borders
        self._low: list[Array] = []
        self._high: list[Array] = []
        for stride, low, high in zip(strides, boxes.low.T, boxes.high.T, strict=True):
            borders = np.unique(np.concatenate([low, high]))
            self._axes.append((stride, borders))
            self._low.append(np.searchsorted(borders, low))
            self._high.append(np.searchsorted(borders, high))
        self.work = prod(len(borders) for _, borders in self._axes)
        self.work += len(layouts) << len(self._axes)

    @cached_property
    def _depth(self) -> Array:
        """How many sets each cell is in."""
        steps = np.zeros([len(borders) for _, borders in self._axes], np.int32)
        for sign, corner in self._corners():
            np.add.at(steps, corner, sign * np.array(self._weights))
        for axis in range(steps.ndim):
            np.cumsum(steps, axis=axis, out=steps)
        return steps[(slice(-1),) * steps.ndim]

    @cached_property
    def _nbytes(self) -> Array:
        """Bytes of each cell."""
        nbytes = np.ones((), np.int64)
        for _, borders in self._axes:
            nbytes = nbytes[..., None] * np.diff(borders)
        return nbytes

    @property
    def touched(self) -> int:
        return int(self._nbytes[self._depth > 0].sum())

    @property
    def shared(self) -> int:
        return int(self._nbytes[self._depth > 1].sum())

    def shared_of(self) -> list[int]:
        sums = np.zeros([len(borders) for _, borders in self._axes], np.int64)
        sums[(slice(1, None),) * sums.ndim] = np.where(self._depth > 1, self._nbytes, 0)
        for axis in range(sums.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        even = (-1) ** sums.ndim
        counts = np.zeros(len(self._weights), np.int64)
        for sign, corner in self._corners():
            counts += even * sign * sums[corner]
        listed: list[int] = counts.tolist()
        return listed

    def shared_part(self) -> list[Layout]:
        first, *others = self._axes
        is_shared = np.moveaxis(self._depth > 1, 0, -1)
        edges = np.diff(is_shared.astype(np.int8), axis=-1, prepend=0, append=0)
        begins, ends = np.nonzero(edges == 1), np.nonzero(edges == -1)
        part = []
        for *where, begin, end in zip(*begins, ends[-1], strict=True):
            low, high = int(first[1][begin]), int(first[1][end])
            start, sizes, strides = self._origin + low, [high - low], [1]
            for at, (stride, borders) in zip(where, others, strict=True):
                start += int(borders[at]) * stride
                sizes.append(int(borders[at + 1] - borders[at]))
                strides.append(stride)
            layout = normalise(start, tuple(sizes), tuple(strides), 1)
            assert layout is not None
            part.append(layout)
        return part

    def _corners(self) -> Iterator[tuple[int, tuple[Array, ...]]]:
        """Corners of all boxes, with the sign that they have in a sum over a box."""
        for ends in product((0, 1), repeat=len(self._axes)):
            sides = zip(ends, self._low, self._high, strict=True)
            yield (-1) ** sum(ends), tuple(high if end else low for end, low, high in sides)


class _Painting:
    """Sets whose every index gives its own byte, painted into a bitmap."""

    def __init__(
        self, layouts: Sequence[Layout], start: int, stop: int, grain: int, weights: Sequence[int]
    ) -> None:
        self._layouts = layouts
        self._start = start
        self._grain = grain
        self._n_grains = (stop - start) // grain
        self._weights = weights

    @cached_property
    def touched(self) -> int:
        """Bytes that are in at least one set."""
        once = np.zeros(self._n_grains, np.bool_)
        for layout in self._layouts:
            self._part(once, layout)[...] = True
        return int(np.count_nonzero(once)) * self._grain

    @cached_property
    def _twice(self) -> Array:
        """Whether each grain is shared."""
        once, twice = np.zeros(self._n_grains, np.bool_), np.zeros(self._n_grains, np.bool_)
        for layout, weight in zip(self._layouts, self._weights, strict=True):
            own = self._part(once, layout)
            own_twice = self._part(twice, layout)
            own_twice |= own if weight == 1 else True
            own[...] = True
        return twice

    @property
    def shared(self) -> int:
        return int(np.count_nonzero(self._twice)) * self._grain

    def shared_of(self) -> list[int]:
        parts = [self._part(self._twice, layout) for layout in self._layouts]
        return [int(np.count_nonzero(part)) * self._grain for part in parts]

    def shared_part(self) -> list[Layout]:
        edges = np.flatnonzero(np.diff(self._twice.view(np.int8), prepend=0, append=0))
        return _as_layouts(self._start + self._grain * edges.reshape(-1, 2))

    def _part(self, bitmap: Array, layout: Layout) -> Array:
        """The grains of a set: a view of the bitmap."""
        grains = [(stride // self._grain, n) for stride, n in layout.dims if stride > 1]
        if layout.dims[0][0] == 1:
            grains.insert(0, (1, layout.dims[0][1] // self._grain))
        return np.lib.stride_tricks.as_strided(
            bitmap[(layout.start - self._start) // self._grain :],
            [count for _, count in reversed(grains)],
            [stride for stride, _ in reversed(grains)],
        )


class _SortedRuns:
    """Any sets, expanded into their runs."""

    def __init__(self, layouts: Sequence[Layout], weights: Sequence[int]) -> None:
        self._runs = [layout_runs(layout) for layout in layouts]
        self._weights = weights

    @property
    def touched(self) -> int:
        return n_bytes(merge(np.concatenate(self._runs)))

    @cached_property
    def _twice(self) -> Runs:
        parts = [
            part
            for part, weight in zip(self._runs, self._weights, strict=True)
            for _ in range(weight)
        ]
        start, stop = np.concatenate(parts).T
        places = np.concatenate([start, stop])
        steps = np.repeat([1, -1], len(start))
        order = np.argsort(places, kind="stable")  # at one place, starts come before ends
        depth = np.cumsum(steps[order])
        ends = np.flatnonzero(np.diff((depth > 1).astype(np.int8), prepend=0, append=0))
        runs = places[order][ends].reshape(-1, 2)
        return merge(runs[runs[:, 0] < runs[:, 1]])

    @property
    def shared(self) -> int:
        return n_bytes(self._twice)

    def shared_of(self) -> list[int]:
        return [n_bytes(intersect(part, self._twice)) for part in self._runs]

    def shared_part(self) -> list[Layout]:
        return _as_layouts(self._twice)


def _as_layouts(runs: Array) -> list[Layout]:
    return [run_layout(low, high) for low, high in runs.tolist()]


def _grain(layouts: Sequence[Layout], origin: int) -> int:
    """Largest size of a block of bytes, counted from the origin, that is touched as a whole."""
    grain = 0
    for layout in layouts:
        stride, count = layout.dims[0]
        if stride != 1:
            return 1
        grain = gcd(grain, count, layout.start - origin, *[stride for stride, _ in layout.dims[1:]])
    return grain


def _n_runs(layout: Layout) -> int:
    """Number of runs that the layout is made of, before those that touch are joined."""
    stride, count = layout.dims[0]
    return layout.n_points // count if stride == 1 else layout.n_points

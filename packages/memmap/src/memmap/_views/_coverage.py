"""Exact number of bytes that some sets of bytes touch, alone and together.

The bytes of a single set whose elements do not overlap follow from its shape. Otherwise:

1. Slices of one tensor are boxes of a grid. The places where a box begins or ends cut the grid into
   at most `MAX_CELLS` cells, however large the tensor. Prefix sums over these count everything.
2. Other sets are expanded into their runs, which are boxes with one axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from ._arrays import Booleans, Integers
from ._boxes import Boxes, boxes_of
from ._layout import Layout, normalise
from ._runs import layout_runs

Coverage: TypeAlias = "_One | _Cells"
"""The bytes that some sets touch together, and those that are shared: in two sets, or in one that
counts twice."""

MAX_CELLS = 1 << 22  # including corners of boxes


def coverage_of(
    layouts: Sequence[Layout], origin: int | None = None, twice: Sequence[bool] = ()
) -> Coverage:
    """Count how many sets touch each byte. Sets marked in `twice` count as two.

    For slices of one tensor, pass the start of their storage as `origin`; this is faster.
    """
    if len(layouts) == 1 and layouts[0].is_nested:
        return _One(layouts[0], counts_twice=any(twice))
    weights = np.array([1 + double for double in twice] or [1] * len(layouts))
    start = min(layout.start for layout in layouts)
    boxes = boxes_of(layouts, (start,) if origin is None else (origin, start))
    if boxes.is_box.all():
        borders = _borders_of(boxes)
        if prod(map(len, borders)) + (len(layouts) << len(borders)) <= MAX_CELLS:
            return _Cells(boxes, borders, np.arange(len(layouts)), weights)
    parts = [layout_runs(layout) for layout in layouts]
    low, high = np.concatenate(parts).T[:, :, None]
    runs = Boxes(0, [1], low, high, np.ones(len(low), np.bool_))
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return _Cells(runs, _borders_of(runs), owners, weights)


def n_touched(layouts: Sequence[Layout]) -> int:
    """Exact number of bytes in a union of sets (at least one)."""
    return coverage_of(layouts).touched


class _One:
    """A single set without overlapping elements: most storages have one tensor."""

    def __init__(self, layout: Layout, counts_twice: bool) -> None:
        self._layout = layout
        self._counts_twice = counts_twice

    @property
    def touched(self) -> int:
        return self._layout.n_points

    @property
    def shared(self) -> int:
        return self.touched if self._counts_twice else 0

    def shared_of(self) -> list[int]:
        return [self.shared]

    def shared_part(self) -> list[Layout]:
        return [self._layout] if self._counts_twice else []


class _Cells:
    """Boxes of some owners, counted in the cells of a grid cut where boxes begin or end."""

    def __init__(
        self, boxes: Boxes, borders: list[Integers], owners: Integers, weights: Integers
    ) -> None:
        self._boxes = boxes
        self._borders = borders
        self._owners = owners
        self._n_owners = len(weights)
        self._shape = [len(ends) for ends in borders]
        self._sides = [
            (np.searchsorted(ends, low), np.searchsorted(ends, high))
            for ends, low, high in zip(borders, boxes.low.T, boxes.high.T, strict=True)
        ]
        flat = np.zeros(prod(self._shape))
        for sign, corner in self._corners():
            at = np.ravel_multi_index(corner, self._shape)
            flat += np.bincount(at, sign * weights[owners], minlength=flat.size)
        steps = flat.astype(np.int32).reshape(self._shape)
        self._cell_nbytes = np.ones((), np.int64)
        for axis, ends in enumerate(borders):
            np.cumsum(steps, axis=axis, out=steps)
            self._cell_nbytes = self._cell_nbytes[..., None] * np.diff(ends)
        # How many sets contain each cell.
        self._depth = steps[(slice(-1),) * steps.ndim]

    @property
    def touched(self) -> int:
        return self._nbytes(self._depth > 0)

    @property
    def shared(self) -> int:
        return self._nbytes(self._depth > 1)

    def _nbytes(self, cells: Booleans) -> int:
        return int(self._cell_nbytes[cells].sum())

    def shared_of(self) -> list[int]:
        sums = np.zeros(self._shape, np.int64)
        sums[(slice(1, None),) * sums.ndim] = np.where(self._depth > 1, self._cell_nbytes, 0)
        for axis in range(sums.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        counts = np.zeros(len(self._owners), np.int64)
        for sign, corner in self._corners():
            counts += (-1) ** sums.ndim * sign * sums[corner]
        first = np.searchsorted(self._owners, np.arange(self._n_owners))
        of_owners: list[int] = np.add.reduceat(counts, first).tolist()
        return of_owners

    def shared_part(self) -> list[Layout]:
        first, *others = self._borders
        is_shared = np.moveaxis(self._depth > 1, 0, -1)
        edges = np.diff(is_shared.astype(np.int8), axis=-1, prepend=0, append=0)
        begins, ends = np.nonzero(edges == 1), np.nonzero(edges == -1)
        layouts = []
        for *where, begin, end in zip(*begins, ends[-1], strict=True):
            low, high = int(first[begin]), int(first[end])
            start, sizes = self._boxes.origin + low, [high - low]
            for at, stride, borders in zip(where, self._boxes.strides[1:], others, strict=True):
                start += int(borders[at]) * stride
                sizes.append(int(borders[at + 1] - borders[at]))
            layout = normalise(start, tuple(sizes), tuple(self._boxes.strides), 1)
            assert layout is not None
            layouts.append(layout)
        return layouts

    def _corners(self) -> Iterator[tuple[int, tuple[Integers, ...]]]:
        """The corners of all boxes, with their signs in an inclusion-exclusion sum."""
        for ends in product((0, 1), repeat=len(self._sides)):
            yield (
                (-1) ** sum(ends),
                tuple(side[end] for end, side in zip(ends, self._sides, strict=True)),
            )


def _borders_of(boxes: Boxes) -> list[Integers]:
    """The bytes on each axis where a box begins or ends, ascending."""
    found = []
    for low, high in zip(boxes.low.T, boxes.high.T, strict=True):
        # Sorting is faster here than `numpy.unique`, which hashes integers.
        ends = np.sort(np.concatenate([low, high]))
        found.append(ends[np.diff(ends, prepend=ends[0] - 1) > 0])
    return found

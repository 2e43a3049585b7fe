"""Exact number of bytes that some sets of bytes touch, alone and together.

The bytes of a single set whose elements do not overlap follow from its shape. Otherwise sets are
products of digits of a grid, and so boxes, one for each run of digits. The places where a box
begins or ends cut the grid into at most `MAX_CELLS` cells, however large the tensor. Prefix sums
over these count everything. Sets that are no products are boxes of the grid with one digit: runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, takewhile
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np

from ._arrays import Booleans, Integers
from ._grid import Product, grid_of, products_of
from ._layout import Layout, normalise
from ._runs import layout_runs, n_bytes, union_runs

Coverage: TypeAlias = "_One | _Cells"
"""The bytes that some sets touch together, and those that are shared: in two sets, or in one that
counts twice."""

MAX_CELLS = 1 << 22  # including corners of boxes
FEW_RUNS = 1 << 14  # a grid takes longer than so few runs
_MAX_ORIGINS = 8


class _Boxes(NamedTuple):
    """Boxes of a grid: digits from `low` to before `high`, of shape (n, axes), and their sets.

    `origin` is the address whose digits are all 0. The boxes of one set are disjoint.
    """

    origin: int
    grid: Sequence[int]
    low: Integers
    high: Integers
    owners: Integers


def coverage_of(
    layouts: Sequence[Layout], origin: int | None = None, twice: Sequence[bool] = ()
) -> Coverage:
    """Count how many sets touch each byte. Sets marked in `twice` count as two.

    For slices of one tensor, pass the start of their storage as `origin`; this is faster.
    """
    if len(layouts) == 1 and layouts[0].is_nested:
        return _One(layouts[0], counts_twice=any(twice))
    weights = np.array([1 + double for double in twice] or [1] * len(layouts))
    starts = [layout.start for layout in layouts]
    origins = dict.fromkeys([min(starts) if origin is None else origin, *starts])
    if sum([layout.n_runs for layout in layouts]) > FEW_RUNS:
        boxes = _boxes_of(layouts, [*origins][:_MAX_ORIGINS], grid_of(layouts))
        if boxes is not None:
            borders = _borders_of(boxes)
            if prod(map(len, borders)) + (len(boxes.low) << len(boxes.grid)) <= MAX_CELLS:
                return _Cells(boxes, borders, weights)
    parts = [layout_runs(layout) for layout in layouts]
    low, high = np.concatenate(parts).T[:, :, None]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    runs = _Boxes(0, [1], low, high, owners)
    return _Cells(runs, _borders_of(runs), weights)


def _boxes_of(
    layouts: Sequence[Layout], origins: Sequence[int], grid: Sequence[int]
) -> _Boxes | None:
    """Sets as boxes of a grid; None if one is no union of disjoint products, or of very many."""
    for origin in origins:
        sets = [*takewhile(bool, (_products_of(layout, origin, grid) for layout in layouts))]
        if len(sets) == len(layouts):
            break
    else:
        return None
    boxes: list[tuple[Sequence[int], ...]] = []
    owners: list[int] = []
    for owner, products in enumerate(sets):
        for digits in products:
            if len(boxes) + prod([one.n_runs for one in digits]) > MAX_CELLS >> len(grid):
                return None
            boxes += product(*[_runs_of(one) for one in digits])
        owners += [owner] * (len(boxes) - len(owners))
    low, high = np.moveaxis(np.array(boxes, np.int64), -1, 0)
    return _Boxes(origin, grid, low, high, np.array(owners))


def _products_of(layout: Layout, origin: int, grid: Sequence[int]) -> list[Product]:
    """Disjoint products; none if elements overlap, because then products may overlap, too."""
    products = products_of(layout.start - origin, layout.dims, grid) or []
    return products if len(products) == 1 or layout.is_nested else []


def _runs_of(digits: Layout) -> list[Sequence[int]]:
    return [digits[:2]] if digits.is_run else layout_runs(digits).tolist()


def n_touched(layouts: Sequence[Layout], origin: int | None = None) -> int:
    """Exact number of bytes in a union of sets (at least one)."""
    if len(layouts) > 1 and sum([layout.n_runs for layout in layouts]) <= FEW_RUNS:
        return n_bytes(union_runs(layouts))
    return coverage_of(layouts, origin).touched


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

    def __init__(self, boxes: _Boxes, borders: list[Integers], weights: Integers) -> None:
        self._boxes = boxes
        self._borders = borders
        self._owners = boxes.owners
        self._n_owners = len(weights)
        self._shape = [len(ends) for ends in borders]
        self._sides = [
            (np.searchsorted(ends, low), np.searchsorted(ends, high))
            for ends, low, high in zip(borders, boxes.low.T, boxes.high.T, strict=True)
        ]
        flat = np.zeros(prod(self._shape))
        for sign, corner in self._corners():
            at = np.ravel_multi_index(corner, self._shape)
            flat += np.bincount(at, sign * weights[self._owners], minlength=flat.size)
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
            for at, stride, borders in zip(where, self._boxes.grid[1:], others, strict=True):
                start += int(borders[at]) * stride
                sizes.append(int(borders[at + 1] - borders[at]))
            layout = normalise(start, tuple(sizes), tuple(self._boxes.grid), 1)
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


def _borders_of(boxes: _Boxes) -> list[Integers]:
    """The bytes on each axis where a box begins or ends, ascending."""
    borders = []
    for low, high in zip(boxes.low.T, boxes.high.T, strict=True):
        # Sorting is faster here than `numpy.unique`, which hashes integers.
        ends = np.sort(np.concatenate([low, high]))
        borders.append(ends[np.diff(ends, prepend=ends[0] - 1) > 0])
    return borders

"""Search for the smallest numbers of tiles that fit; independent of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf, prod
from typing import TypeAlias

Counts = tuple[int, ...]
"""The number of tiles along each dimension."""
Expected: TypeAlias = Callable[[Counts], Mapping[int, float]]


class Search:
    """The search for tiles whose peak is within a budget.

    ``measure`` returns the peak in bytes for given tile lengths along each dimension; preferred
    dimensions come first. The tiles along a dimension are as equal as possible: of the lengths that
    make n tiles, the shortest. Each combination is measured at most once. The search does not
    assume that shorter tiles need less memory.
    """

    def __init__(
        self, sizes: Sequence[int], measure: Callable[[tuple[int, ...]], int], max_tiles: int
    ) -> None:
        self._sizes, self._measure, self._max_tiles = tuple(sizes), measure, max_tiles
        self._peaks: dict[Counts, int] = {}

    def lengths(self, counts: Counts) -> tuple[int, ...]:
        """Return the length of the tiles along each dimension; the last tile may be shorter."""
        return tuple(-(-size // count) for size, count in zip(self._sizes, counts, strict=True))

    def peak(self, counts: Counts) -> int:
        """Return the peak for these numbers of tiles."""
        if counts not in self._peaks:
            self._peaks[counts] = self._measure(self.lengths(counts))
        return self._peaks[counts]

    @property
    def lowest_peak(self) -> int:
        """The lowest of the measured peaks."""
        return min(self._peaks.values())

    def within(self, budget: int, expected: Expected | None = None) -> Counts | None:
        """Return numbers of tiles whose peak is at most ``budget``, or None if none was found.

        ``expected`` returns for measured counts the bytes that each axis may still save, so that
        fewer axes are measured.

        First, make ever more tiles along the dimension that may save most, while shorter ones
        promise to be enough. Otherwise, starting with one tile, repeatedly make four times as many
        tiles along the dimension that lowers the peak most (the first of equals, or one that is
        enough), until the peak fits.
        Then, last dimension first, reduce the tiles of each dimension as far as they still fit,
        until no single dimension can have one tile less. If nothing fits, ``lowest_peak`` is the
        smallest budget with which something is found: what was measured then is the same for all
        budgets that are too small.
        """
        start = (1,) * len(self._sizes)
        if self.peak(start) <= budget:
            return start
        may = expected or (lambda counts: {})
        line = self._line(start, may(start))
        counts = self._promised(line, budget) or self._greedy(start, budget, may)
        counts = counts or next((own for own in line if self.peak(own) <= budget), None)
        if counts is None:
            return None
        counts = self._with_fewer(counts, budget)
        while any(self.peak(fewer) <= budget for fewer in self._with_one_less(counts)):
            counts = self._with_fewer(counts, budget)
        return counts

    def _line(self, start: Counts, expected: Mapping[int, float]) -> list[Counts]:
        """Return ever more tiles along the axis that may save most; the first counts are given."""
        axes = [axis for axis in range(len(start)) if self._finer(start, axis) != start]
        axis, line = max(axes, key=lambda axis: expected.get(axis, inf), default=0), [start]
        while axes and (finer := self._finer(line[-1], axis)) != line[-1]:
            line.append(finer)
        return line

    def _promised(self, line: Sequence[Counts], budget: int) -> Counts | None:
        """Return the first counts of a line that fit, while peaks that grow evenly promise it."""
        for coarse, fine in pairwise(line):
            if self.peak(fine) <= budget:
                return fine
            axis = next(
                at for at, pair in enumerate(zip(coarse, fine, strict=True)) if len({*pair}) > 1
            )
            long, short, shortest = (self.lengths(own)[axis] for own in (coarse, fine, line[-1]))
            slope = (self.peak(coarse) - self.peak(fine)) / (long - short)
            if self.peak(fine) - slope * (short - shortest) > budget:
                break
        return None

    def _greedy(self, counts: Counts, budget: int, expected: Expected) -> Counts | None:
        """Return counts that fit, with more tiles along the best axis each time, or None."""
        saved = dict[int, float]()
        while self.peak(counts) > budget:
            axis = self._best_axis(counts, saved, expected(counts), budget)
            if axis is None:
                return None
            counts = self._finer(counts, axis)
        return counts

    def _best_axis(
        self,
        counts: Counts,
        saved: dict[int, float],
        expected: Mapping[int, float],
        budget: int,
    ) -> int | None:
        """Return the axis along which more tiles lower the peak most, if one can be cut.

        ``saved`` has the bytes that each axis saved when it was measured last. Coarser tiles save
        more, so an axis is not measured if it saved or may save less than another one saves now,
        and none is measured after one that is enough for the budget.
        """
        best, may = (
            None,
            {
                axis: min(saved.get(axis, inf), expected.get(axis, inf))
                for axis in range(len(counts))
            },
        )
        for axis in sorted(may, key=lambda axis: -may[axis]):
            if best is not None and (
                self.peak(self._finer(counts, best)) <= budget
                or (saved[best] > 0 and saved[best] >= may[axis])
            ):
                break
            finer = self._finer(counts, axis)
            if finer == counts:
                continue
            saved[axis] = self.peak(counts) - self.peak(finer)
            if best is None or (-saved[axis], axis) < (-saved[best], best):
                best = axis
        return best

    def _room(self, counts: Counts, axis: int) -> int:
        """Return the largest allowed number of tiles along an axis."""
        return self._max_tiles // (prod(counts) // counts[axis])

    def _finer(self, counts: Counts, axis: int) -> Counts:
        """Return the counts with four times as many tiles along an axis, or as many as allowed."""
        wanted = min(4 * counts[axis], self._sizes[axis], self._room(counts, axis))
        return self._with_count(counts, axis, wanted)

    def _with_one_less(self, counts: Counts) -> list[Counts]:
        """Return all counts with one tile less in one dimension."""
        axes = [axis for axis, count in enumerate(counts) if count > 1]
        return [self._with_count(counts, axis, counts[axis] - 1) for axis in axes]

    def _with_count(self, counts: Counts, axis: int, count: int) -> Counts:
        """Return the counts with at most ``count`` tiles along an axis."""
        length = -(-self._sizes[axis] // count)
        return (*counts[:axis], -(-self._sizes[axis] // length), *counts[axis + 1 :])

    def _with_fewer(self, counts: Counts, budget: int) -> Counts:
        """Return the counts with as few tiles as fit, one dimension after the other."""
        for axis in reversed(range(len(counts))):
            fewer = (self._with_count(counts, axis, n) for n in range(counts[axis] - 1, 0, -1))
            measured = (n for n in fewer if self._peaks.get(n, 0) > budget)
            too_few = next(measured, (0,) * len(counts))[axis]
            guess = self._fewest(counts, axis, too_few, budget) if too_few else 0
            while counts[axis] - too_few > 1:
                middle = (too_few + counts[axis]) // 2
                if guess:  # the first time
                    middle, guess = min(max(guess, too_few + 1), counts[axis] - 1), 0
                tried = self._with_count(counts, axis, middle)
                if self.peak(tried) <= budget:
                    counts = tried
                else:
                    too_few = middle
        return counts

    def _fewest(self, counts: Counts, axis: int, too_few: int, budget: int) -> int:
        """Return how many tiles along an axis would be enough if peaks grow evenly."""
        coarse = self._with_count(counts, axis, too_few)
        long, short = (self.lengths(own)[axis] for own in (coarse, counts))
        part = (budget - self.peak(counts)) / (self.peak(coarse) - self.peak(counts))
        return -(-self._sizes[axis] // int(short + part * (long - short)))

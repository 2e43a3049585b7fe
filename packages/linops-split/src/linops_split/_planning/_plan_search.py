"""Search for the smallest numbers of tiles that fit; independent of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

Counts = tuple[int, ...]
"""The number of tiles along each dimension."""


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

    def within(self, budget: int) -> Counts | None:
        """Return numbers of tiles whose peak is at most ``budget``, or None if none was found.

        First, starting with one tile, repeatedly make eight times as many tiles along an axis,
        until the peak fits. Then, last dimension first, reduce the tiles of each dimension as far
        as they still fit, until no single dimension can have one tile less. If nothing fits,
        ``lowest_peak`` is the smallest budget with which something is found: what was measured then
        is the same for all budgets that are too small.
        """
        counts: Counts | None = (1,) * len(self._sizes)
        saved = dict[int, int]()
        while counts is not None and self.peak(counts) > budget:
            counts = self._lower(counts, saved)
        if counts is None:
            return None
        while True:
            counts = self._with_fewer(counts, budget)
            axes = [axis for axis, count in enumerate(counts) if count > 1]
            fewer = [self._with_count(counts, axis, counts[axis] - 1) for axis in axes]
            if all(self.peak(one) > budget for one in fewer):
                return counts

    def _lower(self, counts: Counts, saved: dict[int, int]) -> Counts | None:
        """Return counts with more tiles along the first axis that lowers the peak.

        ``saved`` has the bytes that each axis saved when it was measured last: axes come first that
        were not measured, then those that saved most, since coarser tiles save more. If none lowers
        the peak, return the counts with the lowest peak; None if no axis can be cut.
        """
        best = None
        axes = range(len(counts))
        for axis in sorted(axes, key=lambda axis: saved.get(axis, inf), reverse=True):
            finer = self._finer(counts, axis)
            if finer == counts:
                continue
            saved[axis] = self.peak(counts) - self.peak(finer)
            if best is None or self.peak(finer) < self.peak(best):
                best = finer
            if saved[axis] > 0:
                break
        return best

    def _finer(self, counts: Counts, axis: int) -> Counts:
        """Return the counts with eight times as many tiles along an axis, or as many as allowed."""
        room = self._max_tiles // (prod(counts) // counts[axis])
        wanted = min(8 * counts[axis], self._sizes[axis], room)
        return self._with_count(counts, axis, wanted)

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
            n_guesses = 2 if too_few else 0
            while counts[axis] - too_few > 1:
                middle = (too_few + counts[axis]) // 2
                if n_guesses:
                    guess, n_guesses = self._fewest(counts, axis, too_few, budget), n_guesses - 1
                    middle = min(max(guess, too_few + 1), counts[axis] - 1)
                tried = self._with_count(counts, axis, middle)
                if self.peak(tried) <= budget:
                    counts = tried
                else:
                    too_few = middle
        return counts

    def _fewest(self, counts: Counts, axis: int, too_few: int, budget: int) -> int:
        """Return how many tiles along an axis would be enough if peaks grow evenly."""
        coarse = self._with_count(counts, axis, too_few)
        long, short = (self.lengths(one)[axis] for one in (coarse, counts))
        part = (budget - self.peak(counts)) / (self.peak(coarse) - self.peak(counts))
        return -(-self._sizes[axis] // int(short + part * (long - short)))

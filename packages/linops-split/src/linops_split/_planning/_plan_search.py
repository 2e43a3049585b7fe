"""Search for the smallest numbers of tiles that fit; independent of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    def within(self, budget: int, expected: Mapping[int, float] | None = None) -> Counts | None:
        """Return numbers of tiles whose peak is at most ``budget``, or None if none was found.

        ``expected`` are the bytes that an axis may save, so that fewer axes are measured.

        Starting with one tile, repeatedly make four times as many tiles along the dimension that
        lowers the peak most (the first of equals, or one along which a shorter tile promises to be
        enough), until the peak fits.
        Then, last dimension first, reduce the tiles of each dimension as far as they still fit,
        until no single dimension can have one tile less. If nothing fits, ``lowest_peak`` is the
        smallest budget with which something is found.
        """
        counts, saved = (1,) * len(self._sizes), dict(expected or {})
        axis, promises = None, False
        while self.peak(counts) > budget:
            if axis is None or not promises or self._finer(counts, axis) == counts:
                axis = self._best_axis(counts, saved, budget)
            if axis is None:
                return None
            promises = self._may_be_enough(counts, axis, budget)
            counts = self._finer(counts, axis)
        counts = self._with_fewer(counts, budget)
        while any(self.peak(fewer) <= budget for fewer in self._with_one_less(counts)):
            counts = self._with_fewer(counts, budget)
        return counts

    def _best_axis(self, counts: Counts, saved: dict[int, float], budget: int) -> int | None:
        """Return the axis along which more tiles lower the peak most, if one can be cut.

        ``saved`` has the bytes that each axis saved when it was measured last, or may save. Coarser
        tiles save more, so an axis is not measured if it saves less than another one saves now, and
        none is measured after one that promises to be enough for the budget.
        """
        best = None
        for axis in sorted(range(len(counts)), key=lambda axis: -saved.get(axis, inf)):
            if best is not None and (
                self._may_be_enough(counts, best, budget)
                or (saved[best] > 0 and saved[best] >= saved.get(axis, inf))
            ):
                break
            finer = self._finer(counts, axis)
            if finer == counts:
                continue
            saved[axis] = self.peak(counts) - self.peak(finer)
            if best is None or (-saved[axis], axis) < (-saved[best], best):
                best = axis
        return best

    def _may_be_enough(self, counts: Counts, axis: int, budget: int) -> bool:
        """Return whether the shortest tiles along a measured axis fit if peaks grow evenly."""
        finer = self._finer(counts, axis)
        finest = self._with_count(counts, axis, min(self._sizes[axis], self._room(counts, axis)))
        long, short, shortest = (self.lengths(own)[axis] for own in (counts, finer, finest))
        slope = (self.peak(counts) - self.peak(finer)) / (long - short)
        return self.peak(finer) - slope * (short - shortest) <= budget

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
            too_few, n_guesses = next(measured, (0,) * len(counts))[axis], 2
            while counts[axis] - too_few > 1:
                middle = (too_few + counts[axis]) // 2
                if n_guesses and too_few:
                    guess = self._fewest(counts, axis, too_few, budget)
                    middle, n_guesses = (
                        min(max(guess, too_few + 1), counts[axis] - 1),
                        n_guesses - 1,
                    )
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

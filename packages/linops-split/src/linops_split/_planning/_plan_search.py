"""Looking for the fewest tiles that fit: a search over numbers of tiles, without operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

Counts = tuple[int, ...]
"""Into how many tiles each dimension is cut."""


class Search:
    """The search for tiles whose peak is within a budget.

    The tiles along a dimension are as equal as they can be: of the lengths that make n tiles, the
    shortest. What is measured is measured once, and nothing is supposed of it: not that
    shorter tiles need less.

    Parameters
    ----------
    sizes : sequence of int
        Of the dimensions, in order of preference.
    measure : callable
        Returns the peak, in bytes, for the length of the tiles along each dimension and a limit:
        beyond that, if there is one, any number between it and the peak will do.
    max_tiles : int
    """

    def __init__(
        self,
        sizes: Sequence[int],
        measure: Callable[[tuple[int, ...], int | None], int],
        max_tiles: int,
    ) -> None:
        self._sizes, self._measure, self._max_tiles = tuple(sizes), measure, max_tiles
        self._peaks: dict[tuple[int, ...], int] = {}
        self._at_least: dict[tuple[int, ...], int] = {}

    def lengths(self, counts: Counts) -> tuple[int, ...]:
        """Return how long the tiles are along each dimension; the last ones may be shorter."""
        return tuple(-(-size // count) for size, count in zip(self._sizes, counts, strict=True))

    def peak(self, counts: Counts, limit: int | None = None) -> int:
        """Return the peak for that many tiles, or some number that shows it beyond the limit."""
        lengths = self.lengths(counts)
        if lengths in self._peaks:
            return self._peaks[lengths]
        if limit is not None and self._at_least.get(lengths, limit) > limit:
            return self._at_least[lengths]
        peak = self._measure(lengths, limit)
        is_whole = limit is None or peak <= limit
        (self._peaks if is_whole else self._at_least)[lengths] = peak
        return peak

    @property
    def lowest_peak(self) -> int:
        """The lowest of the peaks that were measured."""
        return min(self._peaks.values())

    def within(self, budget: int) -> Counts | None:
        """Return numbers of tiles whose peak is at most ``budget``, or None if none was found.

        From one tile on, that dimension is cut into twice as many tiles for which the peak is
        lowest then, the first of equals, until it fits. Then the dimensions, the last first, are
        cut into as few tiles as still fit, until no dimension by itself can be cut into
        one tile less. Where nothing fits, ``lowest_peak`` is the smallest budget with which
        something is found.
        """
        counts = (1,) * len(self._sizes)
        while self.peak(counts) > budget:
            finer = self._finer(counts)
            if finer is None:
                return None
            counts = finer
        while not self._is_least(counts, budget):
            counts = self._with_fewer(counts, budget)
        return counts

    def _is_least(self, counts: Counts, budget: int) -> bool:
        """Whether one tile less along any dimension does not fit."""
        fewer = (
            self._with_count(counts, axis, count - 1)
            for axis, count in enumerate(counts)
            if count > 1
        )
        return all(self.peak(less, budget) > budget for less in fewer)

    def _finer(self, counts: Counts) -> Counts | None:
        """Return what has the lowest peak of all that cuts a dimension into twice as many tiles."""
        best, lowest = None, None
        for axis, (size, count) in enumerate(zip(self._sizes, counts, strict=True)):
            room = self._max_tiles // (prod(counts) // count)
            finer = self._with_count(counts, axis, min(2 * count, size, room))
            if finer == counts:
                continue
            peak = self.peak(finer, None if lowest is None else lowest - 1)
            if lowest is None or peak < lowest:
                best, lowest = finer, peak
        return best

    def _with_count(self, counts: Counts, axis: int, count: int) -> Counts:
        """Return the counts with at most ``count`` tiles along an axis: as many as there are."""
        length = -(-self._sizes[axis] // count)
        return (*counts[:axis], -(-self._sizes[axis] // length), *counts[axis + 1 :])

    def _with_fewer(self, counts: Counts, budget: int) -> Counts:
        """Return the counts with as few tiles as fit along one dimension after the other."""
        for axis in reversed(range(len(counts))):
            too_few = 0
            while counts[axis] - too_few > 1:
                middle = self._with_count(counts, axis, (too_few + counts[axis]) // 2)
                if self.peak(middle, budget) <= budget:
                    counts = middle
                else:
                    too_few = (too_few + counts[axis]) // 2
        return counts

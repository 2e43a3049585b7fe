"""Unused names for many dimensions, one after another."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension


class UnusedNames:
    """Finds names as :meth:`nameddim.NamedDimension.next_unused` does, and marks them as used.

    It remembers where it stopped, so the cost is linear in the number of names.
    """

    def __init__(self, taken: Iterable[NamedDimension] = ()) -> None:
        self._taken = set(taken)
        # From a used name to a later one; all between are used.
        self._later: dict[NamedDimension, NamedDimension] = {}

    def __and__(self, other: UnusedNames) -> set[NamedDimension]:
        """Return the names that are used in both."""
        return self._taken & other._taken

    def joined(self, other: UnusedNames) -> UnusedNames:
        """Return the one with more names, in which the names of the other are now used as well."""
        less, more = sorted((self, other), key=lambda names: len(names._taken))
        more.avoid(less._taken)
        return more

    def avoid(self, names: Iterable[NamedDimension]) -> None:
        """Mark ``names`` as used."""
        self._taken.update(names)

    def take(self, dim: NamedDimension) -> NamedDimension:
        """Return the first unused of ``dim``, ``dim + 1``, ..., and mark it as used."""
        seen = []
        while dim in self._taken:
            seen.append(dim)
            dim = self._later.get(dim) or dim + 1
        self._later.update(dict.fromkeys(seen, dim))
        self._taken.add(dim)
        return dim

    def each(self, dims: Iterable[NamedDimension]) -> tuple[NamedDimension, ...]:
        """Return an unused name for each of ``dims``, in order."""
        return tuple([self.take(dim) for dim in dims])

"""Names for dimensions that nobody has yet, many of them one after another."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension


class UnusedNames:
    """What :meth:`nameddim.NamedDimension.next_unused` finds, for names that are then taken.

    It remembers how far it has looked, so that a thousand names cost a thousand times one.
    """

    def __init__(self, taken: Iterable[NamedDimension] = ()) -> None:
        self._taken = set(taken)
        # From a name that is taken to a later one; all between are taken.
        self._later: dict[NamedDimension, NamedDimension] = {}

    def avoid(self, names: Iterable[NamedDimension]) -> None:
        """Give none of ``names`` from now on."""
        self._taken.update(names)

    def take(self, dim: NamedDimension) -> NamedDimension:
        """Return the first of ``dim``, ``dim + 1``, ... that is unused, which it is no more."""
        seen = []
        while dim in self._taken:
            seen.append(dim)
            dim = self._later.get(dim) or dim + 1
        self._later.update(dict.fromkeys(seen, dim))
        self._taken.add(dim)
        return dim

    def each(self, dims: Iterable[NamedDimension]) -> tuple[NamedDimension, ...]:
        """Return such a name for each of ``dims``, in their order."""
        return tuple([self.take(dim) for dim in dims])

"""Sets of which any two can be made one: what belongs together, directly or through others."""

from __future__ import annotations


class DisjointSets:
    """The numbers 0, 1, ..., n - 1, at first each in a set of its own.

    Parameters
    ----------
    n : int
        How many.

    References
    ----------
    R. E. Tarjan, "Efficiency of a good but not linear set union algorithm", Journal of the ACM 22
    (1975), 215-225; with halved paths.

    Examples
    --------
    >>> sets = DisjointSets(4)
    >>> sets.join(0, 2), sets.join(2, 3)
    (None, None)
    >>> [sets.find(number) == sets.find(0) for number in range(4)]
    [True, False, True, True]
    """

    def __init__(self, n: int) -> None:
        self._next = list(range(n))

    def find(self, number: int) -> int:
        """The number that stands for the set of another one; the same for all in it."""
        following = self._next
        while following[number] != number:
            following[number] = number = following[following[number]]
        return number

    def join(self, a: int, b: int) -> None:
        """Make the sets of two numbers one, for which that of `b` stands."""
        self._next[self.find(a)] = self.find(b)

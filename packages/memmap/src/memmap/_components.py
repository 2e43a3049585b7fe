"""Connected components of a graph."""

from __future__ import annotations

from collections.abc import Iterable


def components(n: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For each number below n, the number that represents its connected component.

    R. E. Tarjan, "Efficiency of a good but not linear set union algorithm", Journal of the ACM 22
    (1975), 215-225; with halved paths.
    """
    following = list(range(n))

    def last_of(number: int) -> int:
        while following[number] != number:
            following[number] = number = following[following[number]]
        return number

    for a, b in pairs:
        following[last_of(a)] = last_of(b)
    return [last_of(number) for number in range(n)]

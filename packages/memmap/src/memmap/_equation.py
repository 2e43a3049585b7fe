"""Does ``sum_j c_j y_j = target`` have a solution in integers ``0 <= y_j <= u_j``?

This is the question behind every overlap of two strided views. It is answered exactly, by the
cheapest of three methods that can:

1. If the coefficients divide one another, the right-hand sides that the larger ones may be asked
   for are an interval at every step: O(d) integer operations.
2. Else NumPy's bounded search (the one behind `numpy.shares_memory`) tries up to
   `MAX_CANDIDATES` candidates; it settles nearly all pairs that programs make.
3. Else the set of feasible right-hand sides is carried as sorted runs of integers and eliminated
   variable by variable, doubling the reach of a variable at each step. Work and memory are at
   most ``O(r log u)`` per variable for r runs, and r is at most half the number of bytes in
   which the two views may meet: always an answer, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

import numpy as np

from ._runs import merge, repeat

MAX_CANDIDATES = 20_000

Terms: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (coefficient, largest value), sorted by coefficient, coefficients positive."""


def has_solution(terms: Terms, target: int) -> bool:
    """Whether ``sum_j c_j y_j = target`` for some integers ``0 <= y_j <= u_j``.

    Parameters
    ----------
    terms : sequence of (int, int)
        Pairs ``(c_j, u_j)``, ascending in the distinct positive ``c_j``; at least one.
    target : int
        The right-hand side.

    Returns
    -------
    bool
        Exact, for every input.

    Examples
    --------
    >>> has_solution([(6, 3), (10, 2)], 28), has_solution([(6, 3), (10, 2)], 14)
    (True, False)
    """
    if target < 0:
        return False
    divisor = smallest = terms[0][0]
    divide = True
    for coefficient, _ in terms:
        divide = divide and coefficient % smallest == 0
        smallest = coefficient
        divisor = gcd(divisor, coefficient)
    if target % divisor:
        return False
    if divide:
        return _solve_chain(terms, target)
    found = _search(terms, target)
    return _eliminate(terms, target) if found is None else found


def _solve_chain(terms: Terms, target: int) -> bool:
    unit = terms[0][0]
    low = high = target // unit
    for coefficient, largest in terms:
        if coefficient != unit:
            step = coefficient // unit
            low, high = -(-low // step), high // step
            if low > high:
                return False
            unit = coefficient
        low -= largest
    return low <= 0 <= high


class _Described:
    """A read-only array that is only ever described, never read: its address may be any."""

    def __init__(self, address: int, terms: Terms) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": tuple([largest + 1 for _, largest in terms]),
            "strides": tuple([coefficient for coefficient, _ in terms]),
            "typestr": "|V1",
            "version": 3,
        }


_BASE = 1 << 12  # any address but the null pointer


def _search(terms: Terms, target: int) -> bool | None:
    """Answer by NumPy's bounded search, or None if it would take too many candidates."""
    reach = sum(coefficient * largest for coefficient, largest in terms)
    if max(reach, target) >> 62 or len(terms) > 32:
        return None
    views = np.asarray(_Described(_BASE, terms)), np.asarray(_Described(_BASE + target, ()))
    try:
        # The stubs know only the two special values of max_work.
        return np.shares_memory(*views, max_work=MAX_CANDIDATES)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return None


def _eliminate(terms: Terms, target: int) -> bool:
    """Answer by carrying the feasible right-hand sides as runs of integers."""
    # Of the terms from each index on: the common divisor of the coefficients, and their reach.
    divisors, reaches = [0], [0]
    for coefficient, largest in reversed(terms):
        divisors.append(gcd(divisors[-1], coefficient))
        reaches.append(reaches[-1] + coefficient * largest)
    divisors.reverse()
    reaches.reverse()
    unit = divisors[0]
    if target % unit:
        return False
    feasible = np.array([[target // unit, target // unit + 1]], dtype=np.int64)
    for index, (coefficient, largest) in enumerate(terms, 1):
        feasible = repeat(feasible, -(coefficient // unit), largest + 1, lowest=0)
        # Only multiples of the next divisor can still be reached: count in those.
        if divisors[index]:
            feasible = -(-feasible // (divisors[index] // unit))
            unit = divisors[index]
        feasible[:, 0] = np.maximum(feasible[:, 0], 0)
        feasible[:, 1] = np.minimum(feasible[:, 1], reaches[index] // unit + 1)
        feasible = merge(feasible[feasible[:, 0] < feasible[:, 1]])
    return len(feasible) > 0

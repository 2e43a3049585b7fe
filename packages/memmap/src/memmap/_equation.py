"""Does ``sum_j c_j y_j = target`` have a solution in integers ``0 <= y_j <= u_j``?

This is the question behind every overlap of two strided views. It is answered exactly, by the
cheapest method that can; nothing is ever guessed.

1. A smallest coefficient that divides all others leaves an interval of right-hand sides, counted
   in the common divisor of the rest. If every coefficient divides the next, as in slices of one
   tensor, that settles the equation in O(d).
2. Two coefficients with a common divisor that the rest share a multiple of (steps of 2 and 3
   along one axis) have a closed form; the few right-hand sides left are followed up.
3. Else NumPy's bounded search (the one behind `numpy.shares_memory`) tries `MAX_CANDIDATES`.
4. Else up to `MAX_HEADS` sums of the largest terms are listed, and what they leave is looked up
   among all sums of the other terms, kept as the bits of one integer. It has at most one bit for
   each byte in which the spans of the two views meet, and is shifted and joined
   ``O(sum_j log u_j)`` times.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

import numpy as np

MAX_CANDIDATES = 20_000
MAX_FOLLOWED = 16
MAX_HEADS = 1 << 21

Terms: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (coefficient, largest value), ascending in the coefficients, which are positive."""


def has_solution(coefficients: Sequence[int], largest: Sequence[int], low: int, high: int) -> bool:
    """Whether ``low <= sum_j c_j y_j <= high`` for some integers ``0 <= y_j <= u_j``.

    Parameters
    ----------
    coefficients : sequence of int
        The distinct positive ``c_j``, ascending.
    largest : sequence of int
        The ``u_j``, not negative.
    low, high : int
        The right-hand sides.

    Returns
    -------
    bool
        Exact, for every input.

    Examples
    --------
    >>> has_solution([6, 10], [3, 2], 28, 28), has_solution([6, 10], [3, 2], 14, 14)
    (True, False)
    """
    unit = 1
    for index, coefficient in enumerate(coefficients):
        if coefficient != unit:
            # Only multiples of the common divisor of this term and all larger ones are reached.
            divisor = gcd(*coefficients[index:])
            step = divisor // unit
            low, high = -(-low // step), high // step
            unit = divisor
        if high < 0 or low > high:
            return False
        if coefficient != unit:
            rest = [c // unit for c in coefficients[index:]]
            terms = list(zip(rest, largest[index:], strict=True))
            return _solve_unchained(terms, max(low, 0), high)
        low -= largest[index]
    return low <= 0 <= high


def _solve_unchained(terms: Terms, low: int, high: int) -> bool:
    """Answer for two or more terms whose coefficients have divisor 1 but are not 1."""
    if sum(coefficient * largest for coefficient, largest in terms) < low:
        return False
    found = _follow_pair(terms, low, high)
    if found is not None:
        return found
    if low < high:
        # One more variable makes it an equation; 1 is smaller than all coefficients.
        terms = [(1, high - low), *terms]
    found = _search(terms, high)
    return _meet(terms, high) if found is None else found


def _follow_pair(terms: Terms, low: int, high: int) -> bool | None:
    """Answer through the closed form for the two smallest terms; None if it does not apply."""
    (p, p_most), (q, q_most) = terms[:2]
    if gcd(p, q) != 1:
        return None
    if len(terms) == 2:
        if high - low >= MAX_FOLLOWED:
            return None
        return any(_is_sum(s, p, p_most, q, q_most) for s in range(low, high + 1))
    coefficients, largest = (list(column) for column in zip(*terms[2:], strict=True))
    divisor = gcd(*coefficients)
    # What a small term reaches beyond the divisor is as well reached in steps of the divisor.
    p_most, p_carried = _carry(p, p_most, divisor)
    q_most, q_carried = _carry(q, q_most, divisor)
    if coefficients[0] == divisor:
        largest[0] += p_carried + q_carried
    else:
        coefficients.insert(0, divisor)
        largest.insert(0, p_carried + q_carried)
    reach = p * p_most + q * q_most
    if (high - low + 1) * (reach // divisor + 1) > MAX_FOLLOWED:
        return None
    for value in range(low, high + 1):
        for s in range(value % divisor, min(reach, value) + 1, divisor):
            left = value - s
            if _is_sum(s, p, p_most, q, q_most) and has_solution(coefficients, largest, left, left):
                return True
    return False


def _carry(coefficient: int, most: int, divisor: int) -> tuple[int, int]:
    """``{c y : y <= most}`` as ``{c y + divisor z : y <= kept, z <= carried}``."""
    turn = divisor // coefficient
    if divisor % coefficient or most < turn:
        return most, 0
    carried = (most + 1 - turn) // turn
    return most - carried * turn, carried


def _is_sum(s: int, p: int, p_most: int, q: int, q_most: int) -> bool:
    """Whether ``s = p x + q y`` with ``0 <= x <= p_most, 0 <= y <= q_most``; p, q coprime."""
    y_least = max(0, -((p * p_most - s) // q))
    y = y_least + (s * pow(q, -1, p) - y_least) % p
    return y <= min(q_most, s // q)


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


def _meet(terms: Terms, target: int) -> bool:
    """Answer by looking up what the largest terms leave among all sums of the others."""
    reach = sum(coefficient * largest for coefficient, largest in terms)
    left = np.array([target], dtype=np.int64)
    n_tail = len(terms)
    while reach > MAX_HEADS and len(left) * (terms[n_tail - 1][1] + 1) <= MAX_HEADS:
        n_tail -= 1
        coefficient, largest = terms[n_tail]
        reach -= coefficient * largest
        left = (left[:, None] - coefficient * np.arange(largest + 1)).ravel()
        left = left[(left >= 0) & (left <= reach)]
    left = left[left <= reach]
    if left.size == 0:
        return False
    sums = np.frombuffer(_sums(terms[:n_tail], int(left.max())), np.uint8)
    return bool((sums[left >> 3] >> (left & 7).astype(np.uint8) & 1).any())


def _sums(terms: Terms, most: int) -> bytes:
    """Bytes in which bit s tells whether s, at most `most`, is a sum of the terms."""
    sums = 1
    for coefficient, largest in terms:
        done = 1
        while done <= largest:
            more = min(done, largest + 1 - done)
            if coefficient * more > most:
                break
            sums |= sums << coefficient * more
            if sums.bit_length() > most + 1:
                sums &= (1 << (most + 1)) - 1
            done += more
    return sums.to_bytes(most // 8 + 1, "little")

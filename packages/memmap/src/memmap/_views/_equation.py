"""Does ``sum_j c_j y_j = target`` have a solution in integers ``0 <= y_j <= u_j``?

This is the question behind every overlap of two strided views. The answer is always exact.

1. A smallest coefficient that divides all others leaves an interval of right-hand sides. In slices
   of one tensor each coefficient divides the next, so that nothing else is needed.
2. Where the small terms together hardly exceed a divisor of all larger ones (steps along the
   columns and steps along the rows), both are asked on their own, once for each carry.
3. Else NumPy's search (the one behind `numpy.shares_memory`) tries about as many candidates as the
   next step has sums.
4. Else the terms are split into two halves, and what the sums of one half leave is looked up among
   those of the other. If that would take more memory, all sums are found as the bits of one
   integer instead, of one bit for each byte up to the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from ._arrays import Array

MAX_CARRIES = 16
MIN_CANDIDATES, MAX_CANDIDATES = 1_000, 100_000
# A listed sum takes about as much memory as so many bytes of the target do as bits.
BYTES_PER_SUM = 32
MIN_LISTED = 1 << 16

Terms: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (coefficient, largest value), all positive, ascending in the coefficients."""


class Equation:
    """The left-hand side ``sum_j c_j y_j``, prepared for any number of right-hand sides.

    Parameters
    ----------
    terms : Terms
        Different coefficients ``c_j`` with their largest values ``u_j``.
    """

    __slots__ = ("_chain", "_inner", "_inner_reach", "_outer", "_rest", "_unit", "divisor")

    def __init__(self, terms: Terms) -> None:
        self.divisor = gcd(*[c for c, _ in terms])
        n = 0
        while n < len(terms) and terms[n][0] == gcd(*[c for c, _ in terms[n:]]):
            n += 1
        self._chain = terms[:n]
        self._unit = gcd(*[c for c, _ in terms[n:]])
        self._rest = [(c // self._unit, most) for c, most in terms[n:]]
        self._inner: Equation | None = None
        self._inner_reach = 0
        for n in range(1, len(self._rest)):
            self._inner_reach += prod(self._rest[n - 1])
            if self._inner_reach < MAX_CARRIES * gcd(*[c for c, _ in self._rest[n:]]):
                self._inner, self._outer = Equation(self._rest[:n]), Equation(self._rest[n:])
                break

    def reaches(self, target: int) -> bool:
        """Whether some integers ``0 <= y_j <= u_j`` give the target."""
        low = high = target
        for coefficient, most in self._chain:
            # Only multiples of what divides this term and all larger ones are reached.
            low += -low % coefficient
            high -= high % coefficient
            if high < 0 or low > high:
                return False
            low -= coefficient * most
        if not self._rest:
            return low <= 0 <= high
        low, high = max(0, -(-low // self._unit)), high // self._unit
        if self._inner is None or high - low > MAX_CARRIES:
            return low <= high and _reaches(self._rest, low, high)
        return any(self._reaches_in_parts(self._inner, value) for value in range(low, high + 1))

    def _reaches_in_parts(self, inner: Equation, target: int) -> bool:
        divisor = self._outer.divisor
        carries = range(target % divisor, min(target, self._inner_reach) + 1, divisor)
        return any(self._outer.reaches(target - s) and inner.reaches(s) for s in carries)


def _reaches(terms: Terms, low: int, high: int) -> bool:
    """Whether a sum of the terms lies in an interval."""
    if low < high:
        # One more variable makes it an equation; 1 is smaller than all coefficients.
        terms = [(1, high - low), *terms]
    target = min(high, sum(c * most for c, most in terms) - high)
    if target <= 0:
        return target == 0
    terms = [(c, min(most, target // c)) for c, most in terms if c <= target]
    halves = _halves(terms)
    n_sums = sum(_n_sums(half) for half in halves)
    is_listed = n_sums <= max(MIN_LISTED, target // BYTES_PER_SUM)
    found = _search(*halves, target, max(MIN_CANDIDATES, n_sums) if is_listed else MAX_CANDIDATES)
    if found is not None:
        return found
    if is_listed:
        return _meet(*halves, target)
    return _meets_nearby(halves, target) or _is_sum(terms, target)


def _halves(terms: Terms) -> tuple[Terms, Terms]:
    """Terms in two parts that have about as many sums."""
    halves: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for term in sorted(terms, key=itemgetter(1), reverse=True):
        min(halves, key=_n_sums).append(term)
    return halves


def _n_sums(terms: Terms) -> int:
    return prod([most + 1 for _, most in terms])


class _Described:
    """A read-only array that is only ever described, never read: its address may be any."""

    def __init__(self, address: int, sign: int, terms: Terms) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": tuple([most + 1 for _, most in terms]),
            "strides": tuple([sign * coefficient for coefficient, _ in terms]),
            "typestr": "|V1",
            "version": 3,
        }


def _search(first: Terms, second: Terms, target: int, n_candidates: int) -> bool | None:
    """Answer by NumPy's bounded search, or None if it would take too many candidates."""
    address = 1 + sum(c * most for c, most in second)
    reach = sum(c * most for c, most in first)
    if address + reach + target >> 62 or max(_n_sums(first), _n_sums(second)) >> 62:
        return None
    a, b = _Described(address, 1, first), _Described(address + target, -1, second)
    try:
        # The stubs know only the two special values of max_work.
        return np.shares_memory(np.asarray(a), np.asarray(b), max_work=n_candidates)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return None


def _meet(first: Terms, second: Terms, target: int) -> bool:
    """Answer by looking up what the sums of some terms leave among the sums of the others."""
    sums = _listed_sums(second, target)
    wanted = target - _listed_sums(first, target)
    # A table of remainders leaves few to be looked up by sorting.
    mask = (1 << max(16, len(sums).bit_length() + 3)) - 1
    has_remainder = np.zeros(mask + 1, np.bool_)
    has_remainder[(sums & mask).astype(np.int64)] = True
    wanted = wanted[has_remainder[(wanted & mask).astype(np.int64)]]
    return bool(np.isin(wanted, sums).any())


def _meets_nearby(halves: Iterable[Terms], target: int) -> bool:
    """Whether values that are all about as far on their way as the target give it.

    Where there are far more sums than bytes, some of these few nearly always do.
    """
    reach = sum(prod(term) for half in halves for term in half)
    left, nearby = target, []
    for half in halves:
        n_values = int(MIN_LISTED ** (1 / max(len(half), 1)))
        nearby.append([(c, min(most, n_values - 1)) for c, most in half])
        for (c, most), (_, width) in zip(half, nearby[-1], strict=True):
            left -= c * min(max(most * target // reach - width // 2, 0), most - width)
    first, second = nearby
    return left >= 0 and _meet(first, second, left)


def _listed_sums(terms: Terms, most: int) -> Array:
    """All sums of the terms that are not too large."""
    dtype = np.object_ if most >> 62 else np.int64
    sums: Array = np.zeros(1, dtype)
    for coefficient, largest in terms:
        multiples: Array = coefficient * np.arange(largest + 1).astype(dtype)
        sums = (sums[:, None] + multiples).ravel()
        sums = sums[sums <= most]
    return sums


def _is_sum(terms: Terms, target: int) -> bool:
    """Answer by all sums up to the target: a set bit tells how much is missing to it."""
    missing = 1 << target
    for coefficient, largest in terms:
        done = 1
        while done <= largest:
            more = min(done, largest + 1 - done)
            missing |= missing >> coefficient * more
            done += more
    return bool(missing & 1)

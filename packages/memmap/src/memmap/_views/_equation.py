"""Does ``sum_j c_j y_j = target`` have a solution in integers ``0 <= y_j <= u_j``?

Every overlap test of two strided views asks this question. The answer is always exact.

1. If the smallest coefficient divides all others, the term can be replaced by an interval of
   targets. In slices of one tensor each coefficient divides the next, so this step is enough.
2. If the small terms together hardly exceed a divisor of all larger terms (steps along columns and
   steps along rows), both groups are solved alone, once for each carry.
3. Otherwise NumPy's search (the one behind `numpy.shares_memory`) tries some candidates.
4. Otherwise all sums are represented as bits of one integer, with one bit for each byte up to the
   target.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np

from ._arrays import Array

MAX_CARRIES = 16
# Groups are split into groups again; this many questions take about as long as one search.
MAX_QUESTIONS = 64
MAX_CANDIDATES = 100_000

Terms: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (coefficient, largest value), all positive, ascending in the coefficients."""


class Equation:
    """The left-hand side ``sum_j c_j y_j``, prepared for any number of right-hand sides."""

    __slots__ = (
        "_chain",
        "_inner",
        "_inner_reach",
        "_n_questions",
        "_outer",
        "_rest",
        "_unit",
        "divisor",
    )

    def __init__(self, terms: Terms) -> None:
        self.divisor = gcd(*[c for c, _ in terms])
        n = 0
        while n < len(terms) and terms[n][0] == gcd(*[c for c, _ in terms[n:]]):
            n += 1
        self._chain = terms[:n]
        self._unit = gcd(*[c for c, _ in terms[n:]])
        self._rest = [(c // self._unit, most) for c, most in terms[n:]]
        self._inner: Equation | None = None
        self._inner_reach, self._n_questions = 0, 1
        for n in range(1, len(self._rest)):
            self._inner_reach += prod(self._rest[n - 1])
            n_carries = 1 + self._inner_reach // gcd(*[c for c, _ in self._rest[n:]])
            if n_carries <= MAX_CARRIES:
                inner, outer = Equation(self._rest[:n]), Equation(self._rest[n:])
                n_questions = n_carries * (inner._n_questions + outer._n_questions)
                if n_questions <= MAX_QUESTIONS:
                    self._inner, self._outer = inner, outer
                    self._n_questions = n_questions
                break

    def reaches(self, low: int, high: int) -> bool:
        """Whether some integers ``0 <= y_j <= u_j`` give a sum from `low` to `high`."""
        for coefficient, most in self._chain:
            # This term and all larger ones reach only multiples of this coefficient.
            low += -low % coefficient
            high -= high % coefficient
            if high < 0 or low > high:
                return False
            low -= coefficient * most
        if low <= 0 or not self._rest:
            return low <= 0 <= high
        low, high = -(-low // self._unit), high // self._unit
        if self._inner is not None:
            divisor = self._outer.divisor
            outer = range(-((self._inner_reach - low) // divisor) * divisor, high + 1, divisor)
            if len(outer) <= MAX_CARRIES:
                return any(
                    self._inner.reaches(low - value, high - value)
                    and self._outer.reaches(value, value)
                    for value in outer
                )
        return low <= high and _reaches(self._rest, low, high)


def _reaches(terms: Terms, low: int, high: int) -> bool:
    """Whether a sum of the terms lies in an interval."""
    largest = sum(c * most for c, most in terms)
    if largest - low < high:
        low, high = largest - high, largest - low  # replace each y by its maximum minus y
    if low <= 0:
        return high >= 0
    terms = [(c, min(most, high // c)) for c, most in terms if c <= high]
    result = _search(terms, low, high)
    return _reaches_by_bits(terms, low, high) if result is None else result


def _search(terms: Terms, low: int, high: int) -> bool | None:
    """Answer by NumPy's bounded search, or None if it would take too many candidates."""
    reach = sum(c * most for c, most in terms)
    width = high - low + 1
    if max(1 + reach + high, prod([most + 1 for _, most in terms]), width) >> 62:
        return None
    a, b = _described(1, terms, 1), _described(1 + low, (), width)
    try:
        # The stubs know only the two special values of max_work.
        return np.shares_memory(a, b, max_work=MAX_CANDIDATES)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return None


def _described(address: int, terms: Terms, itemsize: int) -> Array:
    """An array with a made-up address; it is never read."""
    interface = {
        "data": (address, True),
        "shape": tuple([most + 1 for _, most in terms]),
        "strides": tuple([coefficient for coefficient, _ in terms]),
        "typestr": f"|V{itemsize}",
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def _reaches_by_bits(terms: Terms, low: int, high: int) -> bool:
    """Whether a sum of the terms lies in an interval; bits stand for the distances still to go."""
    missing = ((1 << high - low + 1) - 1) << low
    for coefficient, largest in terms:
        done = 1
        while done <= largest:
            more = min(done, largest + 1 - done)
            missing |= missing >> coefficient * more
            done += more
    return bool(missing & 1)

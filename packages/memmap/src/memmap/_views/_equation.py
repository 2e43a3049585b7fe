"""Does ``sum_j c_j y_j = target`` have a solution in integers ``0 <= y_j <= u_j``?

This is the question behind every overlap of two strided views. It is answered exactly, by the
cheapest method that can; nothing is ever guessed.

1. A smallest coefficient that divides all others leaves an interval of right-hand sides, counted
   in the common divisor of the rest. If every coefficient divides the next, as in slices of one
   tensor, that settles the equation in O(d).
2. Two coefficients with a common divisor that the rest share a multiple of (steps of 2 and 3
   along one axis) have a closed form; the few right-hand sides left are followed up.
3. Else NumPy's bounded search (the one behind `numpy.shares_memory`) tries `MAX_CANDIDATES`.
4. Else the solutions are looked for as points of a lattice in a box, whose size does not matter,
   with `MAX_NODES` choices of a coefficient. Up to eight terms, that is nearly always enough.
5. Else the terms are split into two halves. If neither has more than `MAX_LISTED` sums, what the
   sums of one half leave is looked up among those of the other.
6. Else all sums are found as the bits of one integer. It has at most one bit for each byte in which
   the spans of the two views meet, and is shifted and joined ``O(sum_j log u_j)`` times.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from ._lattice import box_has_point

MAX_CANDIDATES = 1_000
MAX_NODES = 3_000
MAX_FOLLOWED = 16
MAX_LISTED = 1 << 22

Terms: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (coefficient, largest value), all positive, ascending in the coefficients."""


class Equation(NamedTuple):
    """Left-hand side ``sum_j c_j y_j``, prepared for any number of right-hand sides.

    Attributes
    ----------
    chain : sequence of (int, int)
        The terms from the smallest on, as long as the coefficient divides all that follow.
    rest : Pair or Terms
        What is left of the equation, in units of `unit`.
    unit : int
        Greatest common divisor of the coefficients of the rest.
    """

    chain: Terms
    rest: Pair | Terms
    unit: int

    def reaches(self, low: int, high: int) -> bool:
        """Whether ``low <= sum_j c_j y_j <= high`` for some integers ``0 <= y_j <= u_j``.

        Parameters
        ----------
        low, high : int
            The right-hand sides.

        Returns
        -------
        bool
            Exact, for every input.

        Examples
        --------
        >>> sums = equation(((6, 3), (10, 2)))
        >>> sums.reaches(28, 28), sums.reaches(14, 14)
        (True, False)
        """
        chain, rest, unit = self
        for coefficient, most in chain:
            # Only multiples of what divides this term and all larger ones are reached.
            low += -low % coefficient
            high -= high % coefficient
            if high < 0 or low > high:
                return False
            low -= coefficient * most
        if not rest:
            return low <= 0 <= high
        low, high = -(-low // unit) if low > 0 else 0, high // unit
        if low > high:
            return False
        return rest.reaches(low, high) if isinstance(rest, Pair) else _reaches(rest, low, high)


class Pair(NamedTuple):
    """Two terms with coprime coefficients, and an equation for what they leave.

    Attributes
    ----------
    p, p_reach, q, q_reach : int
        Coefficients and largest multiples.
    inverse : int
        Of q modulo p.
    divisor : int
        What the pair leaves must be a multiple of this.
    n_followed : int
        How many sums of the pair there may be for one right-hand side.
    after : Equation
        The other terms.
    terms : Terms
        All terms, the two included.
    """

    p: int
    p_reach: int
    q: int
    q_reach: int
    inverse: int
    divisor: int
    n_followed: int
    after: Equation
    terms: Terms

    def reaches(self, low: int, high: int) -> bool:
        """Whether a sum of the terms lies in an interval; exact."""
        p, p_reach, q, q_reach, inverse, divisor, n_followed, after, terms = self
        if (high - low + 1) * n_followed > MAX_FOLLOWED:
            return _reaches(terms, low, high)
        reach = p_reach + q_reach
        for value in range(low, high + 1):
            for s in range(value % divisor, (value if value < reach else reach) + 1, divisor):
                # The least y that leaves a multiple of p for x = (s - q y) / p, not too large.
                least = (s - p_reach + q - 1) // q if s > p_reach else 0
                y = least + (s * inverse - least) % p
                if q * y <= (s if s < q_reach else q_reach) and after.reaches(value - s, value - s):
                    return True
        return False


def equation(terms: tuple[tuple[int, int], ...]) -> Equation:
    """Prepare a left-hand side.

    Parameters
    ----------
    terms : tuple of (int, int)
        Different coefficients ``c_j`` with their largest values ``u_j``, all positive, ascending.

    Returns
    -------
    Equation
        To be asked for right-hand sides.
    """
    for index, (coefficient, _) in enumerate(terms):
        unit = gcd(*[c for c, _ in terms[index:]])
        if coefficient != unit:
            rest = [(c // unit, most) for c, most in terms[index:]]
            return Equation(terms[:index], _pair(rest) or rest, unit)
    return Equation(terms, (), 1)


def _pair(terms: Terms) -> Pair | None:
    """The terms as a pair and what follows, if the two smallest have a closed form."""
    (p, p_most), (q, q_most), *others = terms
    if gcd(p, q) != 1:
        return None
    divisor = gcd(*[c for c, _ in others])
    if divisor:
        # What a small term reaches beyond the divisor is as well reached in steps of the divisor.
        p_most, p_carried = _carry(p, p_most, divisor)
        q_most, q_carried = _carry(q, q_most, divisor)
        carried = p_carried + q_carried
        if others[0][0] == divisor:
            carried += others.pop(0)[1]
        if carried:
            others.insert(0, (divisor, carried))
    p_reach, q_reach = p * p_most, q * q_most
    if not divisor:
        divisor = p_reach + q_reach + 1
    n_followed = (p_reach + q_reach) // divisor + 1
    after = equation(tuple(others))
    return Pair(p, p_reach, q, q_reach, pow(q, -1, p), divisor, n_followed, after, terms)


def _carry(coefficient: int, most: int, divisor: int) -> tuple[int, int]:
    """``{c y : y <= most}`` as ``{c y + divisor z : y <= kept, z <= carried}``."""
    turn = divisor // coefficient
    if divisor % coefficient or most < turn:
        return most, 0
    carried = (most + 1 - turn) // turn
    return most - carried * turn, carried


def _reaches(terms: Terms, low: int, high: int) -> bool:
    """Answer for terms with divisor 1 that have no closed form."""
    if low < high:
        # One more variable makes it an equation; 1 is smaller than all coefficients.
        terms = [(1, high - low), *terms]
    target = min(high, sum(c * most for c, most in terms) - high)
    if target < 0:
        return False
    terms = _clipped(terms, target)
    found = _search(terms, target)
    if found is None:
        found = _look_for_point(terms, target)
    return _meet(terms, target) if found is None else found


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
    if reach >> 62 or len(terms) > 32:
        return None
    views = np.asarray(_Described(_BASE, terms)), np.asarray(_Described(_BASE + target, ()))
    try:
        # The stubs know only the two special values of max_work.
        return np.shares_memory(*views, max_work=MAX_CANDIDATES)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return None


def _clipped(terms: Terms, target: int) -> Terms:
    """The terms without multiples that are larger than the target."""
    return [(c, min(largest, target // c)) for c, largest in terms if c <= target]


def _look_for_point(terms: Terms, target: int) -> bool | None:
    """Answer by looking for a point of a lattice in a box, or None if it would take too long."""
    if len(terms) < 2:
        return target == sum(c * largest for c, largest in terms)
    divisor = gcd(*[c for c, _ in terms])
    if target % divisor:
        return False
    coefficients = [c // divisor for c, _ in terms]
    return box_has_point(
        coefficients, [largest for _, largest in terms], target // divisor, MAX_NODES
    )


def _meet(terms: Terms, target: int) -> bool:
    """Answer by looking up what the sums of some terms leave among the sums of the others."""
    halves: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    sizes = [1, 1]
    for coefficient, largest in sorted(terms, key=itemgetter(1), reverse=True):
        smaller = sizes.index(min(sizes))
        halves[smaller].append((coefficient, largest))
        sizes[smaller] *= largest + 1
    if max(sizes) > MAX_LISTED or target >> 62:
        return bool(_sums(terms, target) >> target & 1)
    first, second = [_listed_sums(half, target) for half in halves]
    return bool(np.isin(target - first, second).any())


def _listed_sums(terms: Terms, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """All sums of the terms that are not too large."""
    sums = np.zeros(1, np.int64)
    for coefficient, largest in terms:
        sums = (sums[:, None] + coefficient * np.arange(largest + 1)).ravel()
        sums = sums[sums <= most]
    return sums


def _sums(terms: Terms, most: int) -> int:
    """Integer in which bit s tells whether s, at most `most`, is a sum of the terms."""
    sums = 1
    for coefficient, largest in terms:
        done = 1
        while done <= largest:
            more = min(done, largest + 1 - done)
            sums |= sums << coefficient * more
            sums &= (1 << (most + 1)) - 1
            done += more
    return sums

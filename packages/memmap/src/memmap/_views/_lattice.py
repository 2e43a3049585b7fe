"""Bounded linear equations in a few variables, however large: points of a lattice in a box.

The integer solutions of ``sum_j c_j y_j = target`` are one solution plus all points of a lattice.
In a reduced basis of the lattice the box ``0 <= y_j <= u_j`` is hardly longer in one direction
than in another, so that few candidates are left for each coefficient. All arithmetic is exact.

References
----------
H. W. Lenstra, "Integer programming with a fixed number of variables", Mathematics of Operations
Research 8 (1983), 538-548. A. K. Lenstra, H. W. Lenstra and L. Lovasz, "Factoring polynomials with
rational coefficients", Mathematische Annalen 261 (1982), 515-534. The form without fractions:
H. Cohen, "A Course in Computational Algebraic Number Theory" (1993), algorithm 2.6.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import mul
from typing import TypeAlias

Vector: TypeAlias = list[int]


def box_has_point(
    coefficients: Sequence[int], largest: Sequence[int], target: int, max_nodes: int
) -> bool | None:
    """Whether ``sum_j c_j y_j = target`` for some integers ``0 <= y_j <= u_j``.

    Parameters
    ----------
    coefficients : sequence of int
        Two or more positive ``c_j`` with no common divisor.
    largest : sequence of int
        The positive ``u_j``.
    target : int
        The right-hand side.
    max_nodes : int
        After so many choices of a coefficient the search is given up.

    Returns
    -------
    bool or None
        Exact; None if the search was given up.

    Examples
    --------
    >>> box_has_point([6, 10, 15], [4, 2, 1], 35, 100), box_has_point([6, 10, 15], [4, 2, 1], 17, 9)
    (True, False)
    """
    if not 0 <= target <= _dot(coefficients, largest):
        return False
    # In units in which all sides of the box are about as long.
    longest = max(largest)
    units = [longest // most for most in largest]
    sides = list(map(mul, units, largest))
    basis, solution = _solutions(coefficients, units)
    steps, norms = _orthogonal(basis)
    # Twice the distance from the centre of the box.
    point = [2 * target * y - side for y, side in zip(solution, sides, strict=True)]
    ranges = []
    for step in steps:
        weights, centre = list(map(mul, step, units)), _dot(step, sides)
        most = _most(weights, coefficients, largest, target)
        least = -_most([-weight for weight in weights], coefficients, largest, target)
        ranges.append((2 * least - centre, 2 * most - centre))
    return _search(basis, steps, norms, ranges, sides, point, max_nodes)


def _most(
    weights: Sequence[int], coefficients: Sequence[int], largest: Sequence[int], target: int
) -> int:
    """Upper bound of ``sum_j w_j y_j`` over the box and the equation: that of all real points.

    The best real point takes as much as it can of what gives most for its coefficient.
    """
    most = 0
    terms = zip(weights, coefficients, largest, strict=True)
    for w, c, u in sorted(terms, key=lambda term: Fraction(term[0], term[1]), reverse=True):
        if c * u > target:
            return most + w * target // c
        most += w * u
        target -= c * u
    return most


def _search(
    basis: Sequence[Vector],
    steps: Sequence[Vector],
    norms: Sequence[int],
    ranges: Sequence[tuple[int, int]],
    sides: Vector,
    point: Vector,
    max_nodes: int,
) -> bool | None:
    """Whether the point plus twice some sum of basis vectors lies within the sides."""
    level = len(basis)
    waiting: list[Iterator[Vector]] = []
    for _ in range(max_nodes):
        if level == 0:
            if all(-side <= x <= side for x, side in zip(point, sides, strict=True)):
                return True
        else:
            level -= 1
            waiting.append(_moved(point, basis[level], steps[level], norms[level], ranges[level]))
        while waiting:
            moved = next(waiting[-1], None)
            if moved is not None:
                point = moved
                break
            waiting.pop()
            level += 1
        else:
            return False
    return None


def _moved(
    point: Vector, vector: Vector, step: Vector, norm: int, within: tuple[int, int]
) -> Iterator[Vector]:
    """The point moved along a basis vector to wherever the box may be, from the middle outwards."""
    along = _dot(point, step)
    first, last = -((along - within[0]) // (2 * norm)), (within[1] - along) // (2 * norm)
    middle = (first + last) // 2
    for offset in range(last - first + 1):
        times = middle + (offset + 1) // 2 * (1 if offset % 2 else -1)
        yield [x + 2 * times * v for x, v in zip(point, vector, strict=True)]


def _solutions(coefficients: Sequence[int], units: Sequence[int]) -> tuple[list[Vector], Vector]:
    """A reduced basis of the solutions of ``sum_j c_j y_j = 0``, and one for right-hand side 1.

    Vectors are in the given units: component j is ``units[j] * y_j``.
    """
    n = len(coefficients)
    # So large a weight of the sum that vectors without it come first.
    heavy = max(coefficients) * max(units) << n
    rows = [
        [*[unit if i == j else 0 for j, unit in enumerate(units)], heavy * coefficients[i]]
        for i in range(n)
    ]
    _reduce(rows)
    *basis, last = rows
    sign = 1 if last[-1] > 0 else -1
    return [row[:-1] for row in basis], [sign * x for x in last[:-1]]


def _orthogonal(basis: Sequence[Vector]) -> tuple[list[Vector], list[int]]:
    """For each vector its part orthogonal to those before it, scaled to integers.

    Returns the parts, and the product of each with its vector.
    """
    steps: list[Vector] = []
    norms: list[int] = []
    for vector in basis:
        part, before = vector, 1
        for step, norm in zip(steps, norms, strict=True):
            along = _dot(vector, step)
            part = [(norm * x - along * s) // before for x, s in zip(part, step, strict=True)]
            before = norm
        steps.append(part)
        norms.append(_dot(vector, part))
    return steps, norms


def _reduce(rows: list[Vector]) -> None:
    """Reduce a basis, in place: the algorithm of Lenstra, Lenstra and Lovasz in integers."""
    steps, norms = _orthogonal(rows)
    d = [1, *norms]
    products = [[_dot(row, step) for step in steps[:i]] for i, row in enumerate(rows)]
    k = 1
    while k < len(rows):
        _shorten(rows, products, d, k, k - 1)
        product = products[k][k - 1]
        if 4 * (d[k + 1] * d[k - 1] + product * product) < 3 * d[k] * d[k]:
            _swap(rows, products, d, k)
            k = max(k - 1, 1)
        else:
            for j in range(k - 2, -1, -1):
                _shorten(rows, products, d, k, j)
            k += 1


def _shorten(rows: list[Vector], products: list[Vector], d: Vector, k: int, j: int) -> None:
    """Subtract row j from row k as often as brings them nearest to a right angle."""
    times = (2 * products[k][j] + d[j + 1]) // (2 * d[j + 1])
    if times:
        rows[k] = [x - times * y for x, y in zip(rows[k], rows[j], strict=True)]
        for i, product in enumerate(products[j]):
            products[k][i] -= times * product
        products[k][j] -= times * d[j + 1]


def _swap(rows: list[Vector], products: list[Vector], d: Vector, k: int) -> None:
    """Swap row k with the one before it."""
    rows[k - 1], rows[k] = rows[k], rows[k - 1]
    product = products[k][k - 1]
    products[k - 1], products[k] = products[k][: k - 1], [*products[k - 1], product]
    norm = (d[k - 1] * d[k + 1] + product * product) // d[k]
    for later in products[k + 1 :]:
        first, second = later[k - 1], later[k]
        later[k] = (d[k + 1] * first - product * second) // d[k]
        later[k - 1] = (norm * second + product * later[k]) // d[k + 1]
    d[k] = norm


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(map(mul, a, b))

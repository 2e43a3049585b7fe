"""Points of a lattice in a box, against all points of the box."""

from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmap._views._lattice import _reduce, box_has_point

TERMS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), min_size=2, max_size=5)


def sums_of(terms: list[tuple[int, int]]) -> set[int]:
    sums = {0}
    for coefficient, most in terms:
        sums = {value + coefficient * y for value in sums for y in range(most + 1)}
    return sums


def coprime(terms: list[tuple[int, int]]) -> list[tuple[int, int]]:
    divisor = gcd(*[c for c, _ in terms])
    return [(c // divisor, most) for c, most in terms]


@given(TERMS.map(coprime), st.floats(-0.1, 1.1))
def test_a_point_is_found_when_there_is_one(terms: list[tuple[int, int]], where: float) -> None:
    sums = sums_of(terms)
    target = round(where * max(sums))
    coefficients, largest = [c for c, _ in terms], [most for _, most in terms]
    assert box_has_point(coefficients, largest, target, 100_000) == (target in sums)


@given(TERMS.map(coprime), st.floats(0, 1), st.integers(1, 10))
def test_an_answer_after_few_choices_is_right_or_none(
    terms: list[tuple[int, int]], where: float, max_nodes: int
) -> None:
    sums = sums_of(terms)
    target = round(where * max(sums))
    coefficients, largest = [c for c, _ in terms], [most for _, most in terms]
    answer = box_has_point(coefficients, largest, target, max_nodes)
    assert answer is None or answer == (target in sums)


@pytest.mark.parametrize("size", [10**9, 10**18, 10**40])
def test_the_size_of_the_numbers_does_not_matter(size: int) -> None:
    coefficients, largest = [size + 1, size + 3, size + 10], [size // 3, size // 4, size // 5]
    target = sum(c * (most // 2) for c, most in zip(coefficients, largest, strict=True))
    assert box_has_point(coefficients, largest, target, 1000)
    # Three terms with small values have gaps in between.
    assert box_has_point(coefficients, [5, 5, 5], 7 * size + 29, 1000)
    assert box_has_point(coefficients, [5, 5, 5], 7 * size + 30, 1000) is False


@given(st.lists(st.lists(st.integers(-50, 50), min_size=4, max_size=4), min_size=4, max_size=4))
def test_a_reduced_basis_spans_the_same_lattice_with_short_vectors(rows: list[list[int]]) -> None:
    reduced = [[*row, *[int(i == j) for j in range(4)]] for i, row in enumerate(rows)]
    _reduce(reduced)
    # The last four columns tell how each vector was combined.
    for vector in reduced:
        combined = [
            sum(times * row[column] for times, row in zip(vector[4:], rows, strict=True))
            for column in range(4)
        ]
        assert combined == vector[:4]
    combinations = [vector[4:] for vector in reduced]
    assert abs(determinant(combinations)) == 1
    shortest = min(sum(x * x for x in [*row, 1]) for row in rows)
    assert sum(x * x for x in reduced[0]) <= 8 * shortest


def determinant(matrix: list[list[int]]) -> int:
    if len(matrix) == 1:
        return matrix[0][0]
    return sum(
        (-1) ** column * matrix[0][column]
        * determinant([[*row[:column], *row[column + 1 :]] for row in matrix[1:]])
        for column in range(len(matrix))
    )  # fmt: skip

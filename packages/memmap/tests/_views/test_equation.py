"""The equation behind every overlap, against all its solutions."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memmap._views import _equation
from memmap._views._equation import Equation

Problem = tuple[list[int], list[int], int, int]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Coefficients, largest values and right-hand sides that are often just out of reach."""
    unit = draw(st.sampled_from([1, 2, 6]))
    chain = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    coefficients = set(draw(st.lists(st.integers(1, 30), max_size=2)))
    for factor in chain:
        unit *= factor
        coefficients.add(unit)
    ordered = sorted(coefficients)
    largest = [draw(st.integers(0, 9)) for _ in ordered]
    reach = sum(c * u for c, u in zip(ordered, largest, strict=True))
    low = draw(st.integers(-1, reach + 1))
    return ordered, largest, low, low + draw(st.sampled_from([0, 0, 1, 3, 20]))


def solutions(coefficients: list[int], largest: list[int]) -> set[int]:
    sums = {0}
    for coefficient, most in zip(coefficients, largest, strict=True):
        sums = {value + coefficient * y for value in sums for y in range(most + 1)}
    return sums


def check(problem: Problem) -> None:
    coefficients, largest, low, high = problem
    expected = any(low <= value <= high for value in solutions(coefficients, largest))
    assert has_solution(coefficients, largest, low, high) == expected
    # An interval of right-hand sides is one more variable.
    terms = Counter(dict(zip(coefficients, largest, strict=True)))
    terms[1] += high - low
    assert Equation(sorted((+terms).items())).reaches(high, high) == expected


def has_solution(coefficients: list[int], largest: list[int], low: int, high: int) -> bool:
    terms = [(c, most) for c, most in zip(coefficients, largest, strict=True) if most]
    return Equation(terms).reaches(low, high)


def give_up(*arguments: object) -> None:
    return None


def refuse(*arguments: object) -> None:
    raise AssertionError("the search must have answered")


def asked_as_usual(patch: pytest.MonkeyPatch) -> None:
    pass


def asked_as_a_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_equation, "MAX_CARRIES", 0)


def searched_by_numpy(patch: pytest.MonkeyPatch) -> None:
    asked_as_a_whole(patch)
    patch.setattr(_equation, "MAX_CANDIDATES", 1_000_000)
    patch.setattr(_equation, "_reaches_by_bits", refuse)


def answered_by_bits(patch: pytest.MonkeyPatch) -> None:
    asked_as_a_whole(patch)
    patch.setattr(_equation, "_search", give_up)


@pytest.mark.parametrize(
    "way",
    [
        asked_as_usual,
        asked_as_a_whole,
        searched_by_numpy,
        answered_by_bits,
    ],
)
@given(problem=problems())
@example(problem=([6, 10, 35], [9, 9, 9], 33, 33))  # only 6 and 10 are left, and 33 is odd
def test_every_way_to_an_answer_is_exact(
    way: Callable[[pytest.MonkeyPatch], None], problem: Problem
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        way(patch)
        check(problem)


def test_the_ends_of_a_chain_are_reached() -> None:
    coefficients, largest = [1, 4, 16, 64], [1, 1, 1, 1]
    reachable = solutions(coefficients, largest)
    for value in range(-1, 87):
        assert has_solution(coefficients, largest, value, value) == (value in reachable)


def test_an_equation_too_wide_for_machine_integers_is_answered() -> None:
    assert has_solution([2, 3, 1 << 70], [1, 1, 1], (1 << 70) + 5, (1 << 70) + 5)
    assert not has_solution([2, 3, 1 << 70], [1, 1, 1], (1 << 70) + 6, (1 << 70) + 6)


def test_the_closed_form_of_two_terms_is_exact() -> None:
    for p_most in range(1, 6):
        for q_most in range(1, 6):
            reachable = solutions([3, 5], [p_most, q_most])
            for value in range(40):
                answer = has_solution([3, 5], [p_most, q_most], value, value)
                assert answer == (value in reachable)


def test_small_and_large_terms_are_asked_on_their_own() -> None:
    # Steps of 2 and 3 along the columns and the rows of a matrix of 20 columns.
    coefficients, largest = [2, 3, 40, 60], [9, 6, 3, 2]
    reachable = solutions(coefficients, largest)
    for value in range(-1, 300):
        assert has_solution(coefficients, largest, value, value) == (value in reachable)


def test_groups_in_groups_ask_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = 0

    def counted(equation: Equation, low: int, high: int) -> bool:
        nonlocal questions
        questions += 1
        return reaches(equation, low, high)

    reaches = Equation.reaches
    monkeypatch.setattr(Equation, "reaches", counted)
    rng = random.Random(0)
    for _ in range(200):
        terms = Counter({rng.randint(7_000, 14_000): rng.randint(1, 10) for _ in range(8)})
        terms[1] += 6
        equation = Equation(sorted(terms.items()))
        questions = 0
        equation.reaches(*(rng.randrange(sum(c * most for c, most in terms.items())),) * 2)
        assert questions <= 2 * _equation.MAX_QUESTIONS

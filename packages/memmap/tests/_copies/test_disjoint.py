"""Joined sets are those that brute force makes."""

from hypothesis import given
from hypothesis import strategies as st

from memmap._copies._disjoint import DisjointSets

NUMBERS = st.integers(0, 9)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20))
def test_numbers_are_in_one_set_if_they_were_joined_directly_or_through_others(
    joins: list[tuple[int, int]],
) -> None:
    sets = DisjointSets(10)
    expected = [{number} for number in range(10)]
    for a, b in joins:
        sets.join(a, b)
        union = expected[a] | expected[b]
        for number in union:
            expected[number] = union
        assert sets.find(a) == sets.find(b)
    for number in range(10):
        together = {other for other in range(10) if sets.find(other) == sets.find(number)}
        assert together == expected[number]
        assert sets.find(number) in expected[number]

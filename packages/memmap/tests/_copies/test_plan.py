"""Components are those that brute force makes."""

from hypothesis import given
from hypothesis import strategies as st

from memmap._copies._plan import components

NUMBERS = st.integers(0, 9)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20))
def test_numbers_are_in_one_component_if_they_are_paired_directly_or_through_others(
    pairs: list[tuple[int, int]],
) -> None:
    expected = [{number} for number in range(10)]
    for a, b in pairs:
        union = expected[a] | expected[b]
        for number in union:
            expected[number] = union
    found = components(10, pairs)
    for number in range(10):
        together = {other for other in range(10) if found[other] == found[number]}
        assert together == expected[number]
        assert found[number] in expected[number]

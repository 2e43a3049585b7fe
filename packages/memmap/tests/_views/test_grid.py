"""Sets of bytes as products of the digits of a grid."""

from collections import Counter
from itertools import product

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import Layout, View, overlapping_pairs, view_of
from memmap._views._grid import grid_of, products_of
from memmap._views._runs import layout_runs
from memmap.testing import touched_bytes, views


def numbers_in(digits: Layout) -> list[int]:
    return [n for low, high in layout_runs(digits).tolist() for n in range(low, high)]


# The steps of 3 cross the period of 8 somewhere else in each turn.
@example(View("RAM", 0, 64, 1, (9,), (3,)), {8}, 0)
@given(
    views().filter(lambda view: view.span is not None),
    st.sets(st.integers(2, 16), max_size=3),
    st.integers(-9, 9),
)
def test_products_of_digits_are_the_bytes_of_their_view(
    view: View, periods: set[int], origin: int
) -> None:
    layout = view.layout()
    assert layout is not None
    grid = sorted({1, *periods})
    result = products_of(layout.start - origin, layout.dims, grid)
    if result is None:
        return
    listed = []
    for digits in (one for each in result for one in product(*map(numbers_in, each))):
        rest = sum(digit * period for digit, period in zip(digits, grid, strict=True))
        listed.append(origin + rest)
        for digit, period in reversed([*zip(digits, grid, strict=True)]):
            assert digit == rest // period  # so no byte has other digits in another product
            rest %= period
    assert {*listed} == {*touched_bytes(view)}
    assert not layout.is_nested or max(Counter(listed).values()) == 1


def layouts_of(*parts: torch.Tensor) -> list[Layout]:
    return [layout for part in parts if (layout := view_of(part).layout())]


def test_the_grid_has_the_steps_of_rows_and_columns_and_where_they_repeat() -> None:
    image = torch.empty(30, 7)
    assert grid_of(layouts_of(image[:, 2:4], image[5])) == [1, 28]
    assert grid_of(layouts_of(image[::2, ::2], image[::3, ::3])) == [1, 4, 24, 28, 168]
    assert grid_of(layouts_of(image.view(-1)[::2], image[:, :3])) == [1, 4, 56]
    assert grid_of(layouts_of(image[5], image[7:9])) == [1]


def test_steps_that_repeat_together_beyond_all_addresses_leave_no_period() -> None:
    primes = [101, 103, 107, 109, 113, 127, 131, 137, 139, 149]
    parts = [torch.empty(9_000)[::step] for step in primes]
    assert grid_of(layouts_of(*parts)) == [1, 4]
    image = torch.empty(9_000)
    whole = [*(image[::step] for step in primes), image[3:4]]
    assert len(overlapping_pairs(whole)) == 10 * 9 // 2


def test_a_set_that_is_cut_in_the_middle_of_an_element_has_no_products() -> None:
    assert products_of(6, ((1, 4), (12, 3)), [1, 8]) is None


def test_a_set_that_crosses_a_period_too_often_has_no_products() -> None:
    assert products_of(0, ((3, 100_000),), [1, 8]) is None

"""The search for the fewest tiles, on any function of the lengths of the tiles."""

from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linops_split._planning._plan_search import Search

SIZES = st.lists(st.integers(2, 40), max_size=3)


class Landscape:
    """A peak for each lengths of the tiles, whatever it may be; counts how often it is asked."""

    def __init__(self, seed: int, highest: int) -> None:
        self.seed, self.highest, self.asked = seed, highest, 0

    def peak(self, lengths: tuple[int, ...]) -> int:
        return hash((self.seed, lengths)) % self.highest

    def __call__(self, lengths: tuple[int, ...]) -> int:
        self.asked += 1
        return self.peak(lengths)


landscapes = st.builds(Landscape, st.integers(0, 10**6), st.integers(1, 100))


def volume(lengths: tuple[int, ...]) -> int:
    return prod(lengths)


# Two landscapes in which a dimension can do with less only when all have been tried.
@example([8, 8], Landscape(214, 100), 30, 200)
@example([16, 16], Landscape(411, 100), 10, 200)
@given(SIZES, landscapes, st.integers(0, 100), st.integers(1, 200))
def test_what_is_found_fits_and_no_dimension_can_do_with_one_tile_less(
    sizes: list[int], landscape: Landscape, budget: int, max_tiles: int
) -> None:
    search = Search(sizes, landscape, max_tiles)
    counts = search.within(budget)
    if counts is None:
        assert search.lowest_peak > budget
        return
    lengths = search.lengths(counts)
    assert search.peak(counts) == landscape.peak(lengths) <= budget
    assert prod(counts) <= max_tiles
    for axis, (size, count, length) in enumerate(zip(sizes, counts, lengths, strict=True)):
        assert -(-size // length) == count  # so many tiles there are
        assert length == 1 or -(-size // (length - 1)) > count  # as equal as can be
        if count > 1:
            longer = (*lengths[:axis], -(-size // (count - 1)), *lengths[axis + 1 :])
            assert landscape.peak(longer) > budget


@given(SIZES, landscapes, st.integers(1, 200))
def test_the_lowest_peak_is_the_smallest_budget(
    sizes: list[int], landscape: Landscape, max_tiles: int
) -> None:
    search = Search(sizes, landscape, max_tiles)
    if search.within(-1) is None:
        smallest = search.lowest_peak
        assert Search(sizes, landscape, max_tiles).within(smallest) is not None
        assert Search(sizes, landscape, max_tiles).within(smallest - 1) is None


@given(SIZES, st.integers(1, 40**3))
def test_where_shorter_tiles_need_less_the_bound_is_reached(sizes: list[int], budget: int) -> None:
    search = Search(sizes, volume, max_tiles=40**3)
    counts = search.within(budget)
    assert counts is not None  # tiles of one element fit
    if len(sizes) == 1:
        assert search.lengths(counts)[0] >= min(sizes[0], (budget + 1) / 2)


@pytest.mark.parametrize(("budget", "counts"), [(100, (1,)), (99, (2,)), (34, (3,)), (10, (10,))])
def test_one_dimension_is_cut_into_as_few_tiles_as_fit(budget: int, counts: tuple[int]) -> None:
    assert Search([100], volume, 100).within(budget) == counts


def test_a_dimension_that_does_not_help_is_not_cut() -> None:
    def second(lengths: tuple[int, ...]) -> int:
        return lengths[1]

    assert Search([100, 100], second, 64).within(10) == (1, 10)


def test_of_equals_the_first_is_cut() -> None:
    assert Search([64, 64], volume, 64).within(2048) == (2, 1)
    assert Search([64, 64], volume, 64).within(512) == (8, 1)


def test_a_plateau_is_crossed() -> None:
    def product_of_both(lengths: tuple[int, ...]) -> int:
        return max(lengths)  # no cut along one dimension alone helps

    counts = Search([16, 16], product_of_both, 64).within(4)
    assert counts == (4, 4)


def test_no_dimensions_leave_the_whole() -> None:
    assert Search([], lambda lengths: 5, 64).within(5) == ()
    assert Search([], lambda lengths: 5, 64).within(4) is None


@given(st.integers(2, 10**9))
def test_few_trials_are_enough(size: int) -> None:
    landscape = Landscape(0, 2)
    Search([size], landscape, 64).within(0)
    assert landscape.asked <= 5 + 6  # to cut finer, and to halve what is between


def test_no_more_tiles_are_tried_than_allowed() -> None:
    tried = []

    def peak(lengths: tuple[int, ...]) -> int:
        tried.append(prod(-(-64 // length) for length in lengths))
        return prod(lengths)

    assert Search([64, 64], peak, 100).within(0) is None
    assert max(tried) <= 100


def test_nothing_is_measured_after_what_is_enough() -> None:
    tried = []

    def peak(lengths: tuple[int, ...]) -> int:
        tried.append(lengths)
        return prod(lengths)

    assert Search([64, 64, 64], peak, 64).within(2**17) == (2, 1, 1)
    assert tried == [(64, 64, 64), (8, 64, 64), (32, 64, 64)]


def test_a_dimension_that_did_not_help_is_measured_last() -> None:
    tried = []

    def peak(lengths: tuple[int, ...]) -> int:
        tried.append(lengths)
        return lengths[1] + 1

    assert Search([64, 64, 64], peak, 64).within(1) is None
    assert tried == [(64, 64, 64), (8, 64, 64), (64, 8, 64), (64, 8, 8), (64, 1, 64)]


def test_the_number_of_tiles_is_guessed_from_peaks_that_grow_evenly() -> None:
    tried = []

    def peak(lengths: tuple[int, ...]) -> int:
        tried.append(lengths)
        return 1000 + 10 * lengths[0]

    assert Search([600], peak, 600).within(1149) == (43,)
    assert tried == [(600,), (75,), (10,), (14,), (15,)]

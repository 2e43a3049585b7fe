from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Identity, SplitError
from linops_core._base._tile import normalized_slice

ends = st.none() | st.integers(-6, 6)


@given(ends, ends, st.integers(0, 5))
def test_a_slice_means_what_it_means_in_python_or_is_refused(
    start: int | None, stop: int | None, size: int
) -> None:
    piece = slice(start, stop)
    covered = list(range(size))[piece]
    within = all(end is None or -size <= end <= size for end in (start, stop))
    try:
        result = normalized_slice(piece, size)
    except SplitError:
        assert not covered or not within
        return
    if result is None:
        assert covered == list(range(size))
    else:
        assert list(range(result.start, result.stop)) == covered
        assert 0 < len(covered) < size


@given(ends, ends)
def test_without_a_size_both_ends_must_be_given(start: int | None, stop: int | None) -> None:
    try:
        result = normalized_slice(slice(start, stop), None)
    except SplitError:
        assert stop is None or stop < 0 or (start or 0) < 0 or (start or 0) >= stop
    else:
        assert result == (slice(start or 0, stop) if stop is not None else None)


@pytest.mark.parametrize(
    ("piece", "size", "message"),
    [
        (3, 5, r"a tile must be given as a slice, got 3"),
        (slice(0, 4, 2), 5, r"the step of a slice must be 1, got slice\(0, 4, 2\)"),
        (slice(1, None), None, r"the size is not known here, .* got slice\(1, None, None\)"),
        (slice(0, -1), None, r"the size is not known here"),
        (slice(0, 6), 5, r"a slice must lie within the size 5, got slice\(0, 6, None\)"),
        (slice(-6, 2), 5, r"a slice must lie within the size 5"),
        (slice(2, 2), 5, r"a slice must hold at least one element, got slice\(2, 2, None\)"),
        (
            slice(0.0, 2.0),
            5,
            r"the ends of a slice must be integers, got slice\(0\.0, ",
        ),
        (slice(0, "2"), None, "the ends of a slice must be integers"),
        (slice(3, 2), None, r"a slice must hold at least one element"),
    ],
)
def test_what_is_no_tile_is_refused(piece: slice, size: int | None, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        normalized_slice(piece, size)


def test_a_split_error_is_a_value_error() -> None:
    assert issubclass(SplitError, ValueError)


def test_a_tile_is_a_mapping() -> None:
    A = Identity(("N",))
    tile: Any = [slice(0, 1)]
    with pytest.raises(TypeError, match=r"Identity .*: a tile must be a mapping of .*, got \[sl"):
        A.split(A, tile)

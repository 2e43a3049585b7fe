"""How often bytes are touched, in every way to count, against counting one by one."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import Layout, View, view_of
from memmap._views import _coverage
from memmap._views._coverage import coverage_of, n_touched
from memmap.testing import touched_bytes, views

Way = Callable[[pytest.MonkeyPatch], None]


def as_it_comes(patch: pytest.MonkeyPatch) -> None:
    pass


def by_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_coverage, "MAX_CELLS", 0)


def by_grid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_coverage, "FEW_RUNS", 0)


WAYS = [as_it_comes, by_runs, by_grid]


def assert_counted(parts: list[View], twice: list[bool], origin: int | None) -> None:
    touched = [set(touched_bytes(part)) for part in parts]
    depth = Counter(
        byte for own, double in zip(touched, twice, strict=True) for byte in [*own] * (1 + double)
    )
    shared = {byte for byte, times in depth.items() if times > 1}
    layouts = [layout for part in parts if (layout := part.layout())]
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            way(patch)
            coverage = coverage_of(layouts, origin, twice)
            assert coverage.touched == n_touched(layouts) == len(depth), way
            assert coverage.shared == len(shared), way
            assert coverage.shared_of() == [len(own & shared) for own in touched], way
            listed = [byte for part in coverage.shared_part() for byte in bytes_of(part)]
            assert sorted(listed) == sorted(shared), way


def bytes_of(layout: Layout) -> list[int]:
    results = [layout.start]
    for stride, count in layout.dims:
        results = [start + stride * i for start in results for i in range(count)]
    return results


# Byte 6 is reached in two ways.
@example([View("RAM", 0, 16, sizes=(4, 3), strides=(2, 3))], [False] * 5)
@given(
    st.lists(views().filter(lambda view: view.span is not None), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_bytes_of_any_views_are_counted(parts: list[View], twice: list[bool]) -> None:
    assert_counted(parts, twice[: len(parts)], None)


ENDS = st.tuples(st.integers(0, 3), st.integers(1, 4))


@given(
    st.lists(st.tuples(ENDS, ENDS, ENDS), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.integers(0, 3),
)
def test_bytes_of_blocks_of_one_tensor_are_counted(
    blocks: list[tuple[tuple[int, int], ...]], twice: list[bool], skipped: int
) -> None:
    tensor = torch.zeros(skipped + 7 * 7 * 7, dtype=torch.int16)[skipped:].view(7, 7, 7)
    parts = []
    for block in blocks:
        part = tensor
        for axis, (start, size) in enumerate(block):
            part = part.narrow(axis, start, size)
        parts.append(view_of(part))
    assert_counted(parts, twice[: len(parts)], view_of(tensor).address)


STEPPED = st.builds(slice, st.integers(0, 4), st.integers(5, 9), st.integers(1, 4))


@given(
    st.lists(st.tuples(STEPPED, STEPPED, st.booleans()), min_size=1, max_size=4),
    st.sampled_from([5, 8, 9]),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_bytes_of_every_kth_slice_are_counted(
    slices: list[tuple[slice, slice, bool]], n_columns: int, twice: list[bool]
) -> None:
    image = torch.zeros(7, n_columns, dtype=torch.int16)
    parts = [
        image.view(-1)[rows.start :: columns.step] if is_flat else image[rows, columns]
        for rows, columns, is_flat in slices
    ]
    views = [view_of(part) for part in parts if part.numel()]
    if views:
        assert_counted(views, twice[: len(views)], None)


def test_steps_that_do_not_divide_one_another_are_counted_by_their_pattern() -> None:
    n = 6 << 18
    huge = torch.empty(n, n + 1, device="meta")
    second, third = huge[::2, ::2], huge[::3, ::3]
    both = (n // 6) * (n // 6 + 1)
    layouts = [layout for part in (second, third) if (layout := view_of(part).layout())]
    coverage = coverage_of(layouts)
    assert coverage.shared == 4 * both
    assert coverage.touched == 4 * (second.numel() + third.numel() - both)
    assert coverage.shared_of() == [4 * both] * 2
    assert sum(part.n_points for part in coverage.shared_part()) == 4 * both


def test_the_size_of_a_tensor_does_not_matter_for_its_slices() -> None:
    huge = torch.empty(1 << 20, 1 << 20, device="meta")
    parts = [huge[:, 10:40], huge[:, 30:50], huge[5:, 45:60]]
    layouts = [layout for part in parts if (layout := view_of(part).layout())]
    coverage = coverage_of(layouts, 0)
    rows = 1 << 20
    assert coverage.touched == 4 * (40 * rows + 10 * (rows - 5))
    assert coverage.shared == 4 * (10 * rows + 5 * (rows - 5))
    assert coverage.shared_of() == [4 * n for n in (10 * rows, 15 * rows - 25, 5 * (rows - 5))]
    shared = coverage.shared_part()
    assert len(shared) == 3
    assert sum(part.n_points for part in shared) == coverage.shared


@pytest.mark.parametrize("way", WAYS)
def test_bytes_that_are_not_boxes_are_counted(way: Way) -> None:
    matrix = torch.zeros(60, 64)
    parts = [matrix[:, ::2], matrix[:, ::3], matrix[7:30], matrix[::4, 5:9]]
    assert len(parts) == 4
    with pytest.MonkeyPatch.context() as patch:
        way(patch)
        layouts = [layout for part in parts if (layout := view_of(part).layout())]
        coverage = coverage_of(layouts)
        depth = Counter(byte for part in parts for byte in touched_bytes(part))
        assert coverage.touched == len(depth)
        assert coverage.shared == sum(times > 1 for times in depth.values())
        assert sum(coverage.shared_of()) == sum(n for n in depth.values() if n > 1)


def test_counts_are_python_integers_that_json_takes() -> None:
    layouts = [Layout(0, 4, ((1, 4),)), Layout(2, 6, ((1, 4),))]
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            way(patch)
            coverage = coverage_of(layouts)
            counts = [coverage.touched, coverage.shared, *coverage.shared_of()]
            assert [type(count) for count in counts] == [int] * 4
            assert not any(isinstance(at, np.integer) for at in coverage.shared_part()[0][:2])

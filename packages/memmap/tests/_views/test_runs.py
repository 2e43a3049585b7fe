"""Runs of integers, against the integers one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memmap import View
from memmap._views._runs import Runs, intersect, layout_runs, merge, n_bytes, union_runs
from memmap.testing import touched_bytes, views

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=8)
VIEWS = views().filter(lambda view: view.span is not None)


def runs_of(intervals: list[tuple[int, int]]) -> Runs:
    return np.array([(low, low + n) for low, n in intervals], np.int64).reshape(-1, 2)


def integers(runs: Runs) -> list[int]:
    return [value for low, high in runs.tolist() for value in range(low, high)]


def assert_sorted_with_gaps(runs: Runs) -> None:
    assert (runs[:, 0] < runs[:, 1]).all() and (runs[1:, 0] > runs[:-1, 1]).all()


@given(INTERVALS, INTERVALS)
def test_runs_are_joined_intersected_and_counted(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    a, b = merge(runs_of(first)), merge(runs_of(second))
    assert_sorted_with_gaps(a)
    assert integers(a) == sorted({*integers(runs_of(first))})
    assert integers(intersect(a, b)) == sorted({*integers(a)} & {*integers(b)})
    assert n_bytes(a) == len(integers(a))


@given(st.lists(VIEWS, max_size=4))
def test_runs_of_layouts_are_their_bytes(parts: list[View]) -> None:
    layouts = [layout for part in parts if (layout := part.layout())]
    for part, layout in zip(parts, layouts, strict=True):
        assert_sorted_with_gaps(layout_runs(layout))
        assert integers(layout_runs(layout)) == sorted({*touched_bytes(part)})
    together = union_runs(layouts)
    assert_sorted_with_gaps(together)
    assert integers(together) == sorted({byte for part in parts for byte in touched_bytes(part)})

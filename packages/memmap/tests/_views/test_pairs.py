from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import View, overlapping_pairs
from memmap._views import _pairs
from memmap._views._pairs import box_pairs, interval_pairs, n_interval_pairs
from memmap.testing import tensor_views, touched_bytes, views

Tensors = list[Any]


def pairs_by_brute_force(tensors: Tensors) -> list[tuple[int, int]]:
    touched = [set(touched_bytes(tensor)) for tensor in tensors]
    return [
        (i, j)
        for i, j in combinations(range(len(tensors)), 2)
        if not touched[i].isdisjoint(touched[j])
    ]


def in_small_portions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_pairs, "_PORTION", 3)


def without_boxes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_pairs, "grid_of", lambda _: [1])


def as_it_comes(patch: pytest.MonkeyPatch) -> None:
    pass


Way = Callable[[pytest.MonkeyPatch], None]
WAYS = [as_it_comes, in_small_portions, without_boxes]


def assert_found_in_every_way(tensors: Tensors) -> None:
    expected = pairs_by_brute_force(tensors)
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            way(patch)
            assert overlapping_pairs(tensors) == expected, way.__name__


@given(st.lists(views(), max_size=10))
def test_pairs_of_any_views(parts: list[View]) -> None:
    assert_found_in_every_way(parts)


@given(st.data())
def test_pairs_of_tensors_of_several_storages(data: st.DataObject) -> None:
    storages = [torch.zeros(40).untyped_storage() for _ in range(2)]
    some = st.sampled_from(storages).flatmap(tensor_views)
    assert_found_in_every_way(data.draw(st.lists(some, max_size=8)))


ENDS = st.integers(0, 6)
SLICES = st.builds(lambda a, b, step: slice(a, b, step), ENDS, ENDS, st.sampled_from([1, 1, 2, 3]))


@given(st.lists(st.tuples(SLICES, SLICES, SLICES), max_size=10), st.integers(0, 3))
def test_pairs_of_slices_of_one_tensor(where: list[tuple[slice, ...]], skipped: int) -> None:
    tensor = torch.zeros(skipped + 4 * 5 * 6)[skipped:].view(4, 5, 6)
    assert_found_in_every_way([tensor[w] for w in where])


@given(st.lists(st.tuples(SLICES, SLICES), min_size=2, max_size=8), st.data())
def test_pairs_of_slices_among_other_views(
    where: list[tuple[slice, slice]], data: st.DataObject
) -> None:
    tensor = torch.zeros(5, 8)
    others = data.draw(st.lists(tensor_views(tensor.untyped_storage()), max_size=3))
    tensors = [*(tensor[w] for w in where), *others]
    assert_found_in_every_way(data.draw(st.permutations(tensors)))


@given(st.lists(st.tuples(SLICES, SLICES), max_size=6))
def test_pairs_of_arrays_that_run_backwards(where: list[tuple[slice, slice]]) -> None:
    matrix = np.zeros((5, 8), np.int16)[::-1, ::-1]
    assert_found_in_every_way([matrix[w] for w in where])


def cases() -> Iterator[tuple[str, Tensors]]:
    random = np.random.default_rng(0)
    flat, matrix = torch.zeros(600), torch.zeros(30, 40)
    yield "parameters", list(torch.split(flat, 7))
    yield "windows", [flat[i : i + 9] for i in range(0, 500, 4)]
    yield "columns", [matrix[:, i] for i in range(40)]
    yield "rows and columns", [*matrix, *matrix.T]
    yield "tiles", [t for rows in torch.split(matrix, 4) for t in torch.split(rows, 6, 1)]
    corners = random.integers(0, 25, (60, 2)).tolist()
    yield "blocks", [matrix[i : i + 5, j : j + 5] for i, j in corners]
    box = torch.zeros(6, 7, 8, 5)
    ends = random.integers(0, 5, (60, 4)).tolist()
    yield "blocks in 4-D", [box[a : a + 2, b : b + 3, c : c + 3, d : d + 2] for a, b, c, d in ends]
    yield "the same", [matrix] * 20
    yield "transposed parts", [matrix[:, ::3], matrix.T[::2], matrix[1::2], matrix[5:9, 3:11]]


@pytest.mark.parametrize(("tensors"), [pytest.param(t, id=name) for name, t in cases()])
def test_pairs_of_the_usual_partitions(tensors: Tensors) -> None:
    assert_found_in_every_way(tensors)


def test_pairs_across_devices_do_not_exist() -> None:
    x, meta = torch.zeros(4), torch.empty(4, device="meta")
    tensors = [x[:3], meta[:3], x[2:], meta[2:], torch.empty(4, device="meta")]
    assert overlapping_pairs(tensors) == [(0, 2), (1, 3)]


def test_pairs_of_nothing() -> None:
    assert overlapping_pairs([]) == []
    assert overlapping_pairs([torch.zeros(3)]) == []
    assert overlapping_pairs([torch.empty(0), torch.zeros(3)[1:1]]) == []


def test_pairs_of_a_generator() -> None:
    x = torch.zeros(4)
    assert overlapping_pairs(x[i : i + 2] for i in range(3)) == [(0, 1), (1, 2)]


def test_pairs_of_what_has_no_memory_are_refused() -> None:
    with pytest.raises(TypeError, match="must be strided"):
        overlapping_pairs([torch.zeros(2), torch.eye(2).to_sparse()])


INTERVALS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=12)


@given(INTERVALS)
def test_intervals_meet_and_are_counted(intervals: list[tuple[int, int]]) -> None:
    low = np.array([start for start, _ in intervals])
    high = low + np.array([width for _, width in intervals])
    expected = [
        (i, j) for i, j in combinations(range(len(low)), 2) if low[i] < high[j] and low[j] < high[i]
    ]
    for portion in (1, 3, 1 << 21):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_pairs, "_PORTION", portion)
            assert sorted(listed(interval_pairs(low, high))) == expected
    assert n_interval_pairs(low, high) == len(expected)


def listed(portions: Iterator[_pairs.Pairs]) -> list[tuple[int, int]]:
    return [
        (min(pair), max(pair))
        for first, second in portions
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    ]


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("width", [3, 30])
@pytest.mark.parametrize("way", WAYS[:-1])
def test_of_many_boxes_each_pair_is_found_once(way: Way, n_axes: int, width: int) -> None:
    random = np.random.default_rng(width)
    low = random.integers(0, 60, (400, n_axes))
    high = low + random.integers(1, width, (400, n_axes))
    meet = ((low[:, None] < high) & (low < high[:, None])).all(-1)
    expected = [(i, j) for i, j in zip(*np.nonzero(meet), strict=True) if i < j]
    with pytest.MonkeyPatch.context() as patch:
        way(patch)
        assert sorted(listed(box_pairs(low, high))) == expected

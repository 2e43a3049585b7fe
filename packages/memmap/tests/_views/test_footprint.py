from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import Footprint, Layout, View, footprint, tensor_memory_span, union_nbytes
from memmap.testing import tensor_views, touched_bytes, views

FOOTPRINTS = st.lists(views(), max_size=4)


def union_of(parts: list[View]) -> tuple[Footprint, set[int]]:
    total, touched = Footprint("RAM"), set[int]()
    for part in parts:
        total |= footprint(part)
        touched |= set(touched_bytes(part))
    return total, touched


def listed(which: Footprint) -> list[int]:
    return [byte for start, stop in which.runs().tolist() for byte in range(start, stop)]


def assert_is(which: Footprint, touched: set[int]) -> None:
    runs = which.runs()
    assert listed(which) == sorted(touched)
    assert runs.dtype == np.int64 and runs.shape == (len(runs), 2)
    assert (runs[1:, 0] > runs[:-1, 1]).all(), "runs are maximal and ascending"
    assert which.nbytes == len(touched)
    assert which.span == ((min(touched), max(touched) + 1) if touched else None)


@given(views())
def test_a_footprint_is_the_set_of_touched_bytes(view: View) -> None:
    assert_is(footprint(view), set(touched_bytes(view)))


@given(FOOTPRINTS)
def test_a_union_has_the_bytes_of_either(parts: list[View]) -> None:
    assert_is(*union_of(parts))


@given(FOOTPRINTS, FOOTPRINTS)
def test_an_intersection_has_the_bytes_of_both(first: list[View], second: list[View]) -> None:
    a, a_touched = union_of(first)
    b, b_touched = union_of(second)
    assert_is(a & b, a_touched & b_touched)
    assert a.isdisjoint(b) == b.isdisjoint(a) == a_touched.isdisjoint(b_touched)


@given(st.lists(views(), min_size=5, max_size=8), st.lists(views(), min_size=5, max_size=8))
def test_many_views_are_disjoint_when_no_byte_is_in_both(
    first: list[View], second: list[View]
) -> None:
    a, a_touched = union_of(first)
    b, b_touched = union_of([view._replace(storage_address=40) for view in second])
    assert a.isdisjoint(b) == a_touched.isdisjoint(b_touched)


@given(FOOTPRINTS, FOOTPRINTS)
def test_footprints_are_equal_when_their_bytes_are(first: list[View], second: list[View]) -> None:
    a, a_touched = union_of(first)
    b, b_touched = union_of(second)
    assert (a == b) == (a_touched == b_touched)
    again = Footprint("RAM", [Layout(at, at + 1, ((1, 1),)) for at in a_touched])
    assert a == again and hash(a) == hash(again)


@given(FOOTPRINTS)
def test_the_union_of_views_is_counted_once(parts: list[View]) -> None:
    assert union_nbytes(parts) == len(union_of(parts)[1])


@given(st.data())
def test_the_union_of_tensors_is_counted_once(data: st.DataObject) -> None:
    storages = [torch.zeros(40).untyped_storage() for _ in range(2)]
    some = st.sampled_from(storages).flatmap(tensor_views)
    tensors = data.draw(st.lists(some, max_size=5))
    touched = {byte for tensor in tensors for byte in touched_bytes(tensor)}
    assert union_nbytes(tensors) == len(touched)
    assert union_nbytes(iter(tensors)) == len(touched)


def test_devices_and_storages_without_addresses_add_up() -> None:
    meta = torch.empty(10, device="meta")
    tensors: list[Any] = [
        torch.zeros(3),
        meta[:6],
        meta[4:],
        torch.empty(2, device="meta"),
        np.zeros(2),
    ]
    assert union_nbytes(tensors) == 12 + 40 + 8 + 16
    assert union_nbytes([]) == 0


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float64])
def test_many_columns_are_counted(step: int, dtype: torch.dtype) -> None:
    matrix = torch.zeros(50, 64, dtype=dtype)
    columns = [matrix[:, i : i + 2] for i in range(0, 60, step)]
    touched = {byte for column in columns for byte in touched_bytes(column)}
    assert union_nbytes(columns) == len(touched)


def test_large_views_with_coprime_strides_are_counted_exactly() -> None:
    shape, strides = (60, 50, 40), (7919, 104_729, 15_485)
    view = View("RAM", 0, 1 << 23, 5, shape, strides, 3)
    index = np.indices(shape).reshape(3, -1)
    starts = np.unique(np.array(strides) @ index)
    expected = np.unique(starts[:, None] + np.arange(3)).size
    assert footprint(view).nbytes == expected


def test_an_expanded_tensor_touches_its_bytes_once() -> None:
    assert footprint(torch.zeros(1).expand(1 << 40)).nbytes == 4


def test_a_footprint_of_a_huge_tensor_needs_no_memory() -> None:
    huge = torch.empty(1 << 20, 1 << 20, device="meta")
    assert footprint(huge[:, ::2]).nbytes == 1 << 41
    assert footprint(huge).runs().tolist() == [[0, 1 << 42]]


def test_an_empty_footprint_has_no_span() -> None:
    empty = footprint(torch.empty(0, 3))
    assert (empty.nbytes, empty.span, empty.runs().tolist()) == (0, None, [])
    assert empty == Footprint("elsewhere")
    assert empty.isdisjoint(empty)


def test_runs_are_a_copy() -> None:
    which = footprint(torch.zeros(3))
    which.runs()[:] = 0
    assert which.runs()[0, 1] - which.runs()[0, 0] == 12


def test_footprints_of_different_spaces_are_disjoint_and_unequal() -> None:
    here, there = footprint(torch.zeros(2)), footprint(torch.empty(2, device="meta"))
    assert here.isdisjoint(there)
    assert here != there
    assert here != "bytes"


def test_footprints_of_different_spaces_have_no_union() -> None:
    here, there = Footprint("A"), Footprint("B")
    with pytest.raises(
        ValueError, match=r"both sides of \| must lie in one address space, got 'A'"
    ):
        here | there
    with pytest.raises(ValueError, match="both sides of & must lie in one address space, got 'A'"):
        here & there


def test_a_footprint_says_what_it_is() -> None:
    view = View("RAM", 0, 8, 2, (2,), (4,), 1)
    assert repr(footprint(view)) == "Footprint(space='RAM', nbytes=2, span=(2, 7))"


def test_what_has_no_memory_has_no_footprint() -> None:
    with pytest.raises(TypeError, match="must be strided"):
        footprint(torch.eye(2).to_sparse())
    with pytest.raises(TypeError, match="must be strided"):
        union_nbytes([torch.zeros(2), torch.eye(2).to_sparse()])


def test_what_is_no_footprint_is_refused() -> None:
    one: Any = footprint(torch.zeros(2))
    with pytest.raises(TypeError, match="the other set must be a Footprint, got int"):
        one.isdisjoint(3)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \|"):
        _ = one | 3
    with pytest.raises(TypeError, match="unsupported operand type\\(s\\) for &"):
        _ = one & None


@given(st.data())
def test_the_span_is_from_the_first_element_to_the_last(data: st.DataObject) -> None:
    tensor = data.draw(tensor_views(torch.zeros(40).untyped_storage()))
    strides = tensor.stride()
    at = [
        tensor.storage_offset() + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in np.ndindex(*tensor.shape)
    ]
    assert tensor_memory_span(tensor) == ((min(at), max(at)) if at else None)


def test_the_span_of_a_meta_tensor() -> None:
    assert tensor_memory_span(torch.empty(4, 5, device="meta")[1:3, ::2]) == (5, 14)


def test_the_span_of_an_array_that_runs_backwards() -> None:
    assert tensor_memory_span(np.zeros((3, 4))[::-1, 1]) == (1, 9)


def test_elements_between_elements_have_no_position() -> None:
    with pytest.raises(
        ValueError, match=r"a multiple of their size .*, got a view of 4-byte .* byte 2"
    ):
        tensor_memory_span(View("RAM", 0, 16, 2, (2,), (4,), 4))


def test_what_has_no_memory_has_no_span() -> None:
    with pytest.raises(TypeError, match="must be strided"):
        tensor_memory_span(torch.eye(2).to_sparse())


def test_the_same_addresses_in_two_spaces_are_other_bytes() -> None:
    layouts = [Layout(2, 6, ((1, 4),))]
    assert Footprint("RAM", layouts) == Footprint("RAM", layouts) != Footprint("GPU", layouts)

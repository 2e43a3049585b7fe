import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import View, has_internal_overlap, overlaps
from memmap.testing import tensor_views, touched_bytes, views


@given(views(), views(), st.integers(0, 40))
def test_views_overlap_when_some_byte_is_in_both(a: View, b: View, shift: int) -> None:
    b = b._replace(storage_address=shift)
    expected = not set(touched_bytes(a)).isdisjoint(touched_bytes(b))
    assert overlaps(a, b) == overlaps(b, a) == expected


@given(views(), st.integers(0, 64), st.data())
def test_a_view_overlaps_itself_moved_when_some_byte_is_in_both(
    view: View, shift: int, data: st.DataObject
) -> None:
    smaller = [data.draw(st.integers(0, size)) for size in view.sizes]
    moved = view._replace(sizes=tuple(smaller), storage_address=shift)
    expected = not set(touched_bytes(view)).isdisjoint(touched_bytes(moved))
    assert overlaps(view, moved) == overlaps(moved, view) == expected


@given(st.data())
def test_tensors_overlap_as_numpy_says(data: st.DataObject) -> None:
    memory = np.zeros(160, np.uint8)
    storage = torch.from_numpy(memory).untyped_storage()
    a, b = (data.draw(tensor_views(storage)) for _ in range(2))
    arrays = [
        np.ndarray(
            tuple(t.shape), f"V{t.element_size()}", memory,
            t.storage_offset() * t.element_size(), [s * t.element_size() for s in t.stride()],
        )
        for t in (a, b)
    ]  # fmt: skip
    expected = np.shares_memory(arrays[0], arrays[1])
    assert overlaps(a, b) == overlaps(arrays[0], arrays[1]) == expected
    assert overlaps(a, b) == (not set(touched_bytes(a)).isdisjoint(touched_bytes(b)))


ENDS = st.one_of(st.none(), st.integers(-9, 9))
SLICES = st.builds(slice, ENDS, ENDS, st.sampled_from([-3, -2, -1, 1, 2, 3]))


@given(st.tuples(SLICES, SLICES), st.tuples(SLICES, SLICES))
def test_numpy_arrays_of_any_direction(a: tuple[slice, slice], b: tuple[slice, slice]) -> None:
    matrix = np.zeros((7, 8), np.int16)
    assert overlaps(matrix[a], matrix[b]) == np.shares_memory(matrix[a], matrix[b])


@given(views(itemsizes=(1, 2, 4)))
def test_a_view_overlaps_itself_when_two_elements_share_a_byte(view: View) -> None:
    touched = touched_bytes(view)
    assert has_internal_overlap(view) == (len(set(touched)) < len(touched))


@given(st.data())
def test_a_tensor_overlaps_itself_when_two_elements_share_a_byte(data: st.DataObject) -> None:
    tensor = data.draw(tensor_views(torch.zeros(40).untyped_storage()))
    touched = touched_bytes(tensor)
    assert has_internal_overlap(tensor) == (len(set(touched)) < len(touched))


def test_internal_overlap_without_crowding_is_found() -> None:
    # Fewer elements than fit into the span, and still two meet: 3 * 4 = 2 * 6.
    view = View("RAM", 0, 100, 0, (4, 3), (4, 6), 1)
    assert has_internal_overlap(view)
    assert not has_internal_overlap(View("RAM", 0, 100, 0, (2, 3), (7, 10), 1))


def test_empty_tensors_overlap_nothing() -> None:
    x = torch.zeros(4)
    assert not overlaps(x[2:2], x)
    assert not overlaps(x[2:2], x[2:2])
    assert not has_internal_overlap(x[:0].expand(3, 0))


def test_tensors_of_different_devices_do_not_overlap() -> None:
    assert not overlaps(torch.zeros(3), torch.empty(3, device="meta"))


def test_overlap_is_counted_in_bytes_across_types() -> None:
    x = torch.zeros(4, dtype=torch.complex64)
    real = torch.view_as_real(x)
    assert overlaps(x[1:2], real[1, 1])
    assert not overlaps(real[:, 0], real[:, 1])
    assert overlaps(x.imag, real[:, 1])
    assert not overlaps(x.real, x.imag)


def addresses(view: View) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    index = np.indices(view.sizes).reshape(len(view.sizes), -1)
    starts = np.unique(view.address + np.array(view.strides) @ index)
    return np.unique(starts[:, None] + np.arange(view.itemsize))


ADVERSARIAL = [
    ((60, 50, 40), (7919, 10_477, 15_485)),
    ((30, 30, 30, 20), (9973, 10_007, 10_009, 10_037)),
    ((200, 300), (65_537, 65_539)),
    ((12, 11, 10, 9, 8), (5040, 5041, 5051, 5059, 5077)),
]


@pytest.mark.parametrize(("sizes", "strides"), ADVERSARIAL)
@pytest.mark.parametrize("itemsize", [1, 3])
def test_adversarial_strides_are_answered_exactly(
    sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> None:
    nbytes = 1 << 40
    a = View("RAM", 0, nbytes, 0, sizes, strides, itemsize)
    low, high = a.layout().start, a.layout().stop  # type: ignore[union-attr]
    touched = addresses(a)
    random = np.random.default_rng(len(sizes))
    answers = set()
    for offset in random.integers(low, high, 12).tolist():
        b = View("RAM", 0, nbytes, offset, (5, 3), (strides[0] + 2, 11), itemsize)
        expected = bool(np.isin(addresses(b), touched, assume_unique=True).any())
        assert overlaps(a, b) == expected
        answers.add(expected)
    whole = View("RAM", 0, nbytes, int(touched[len(touched) // 2]), (), (), 1)
    assert overlaps(a, whole)
    gaps = np.flatnonzero(np.diff(touched) > 1)
    between = int(touched[gaps[len(gaps) // 2]]) + 1
    assert not overlaps(a, View("RAM", 0, nbytes, between, (), (), 1))


def test_the_size_of_a_tensor_does_not_matter_for_its_slices() -> None:
    huge = torch.empty(1 << 20, 1 << 20, 1 << 8, device="meta")
    assert overlaps(huge[::2, ::3, ::5], huge[1::3, 1::5, 1::6])
    assert not overlaps(huge[::2, ::3, ::5], huge[1::4, 1::5, 1::6])
    assert overlaps(huge[:, :-9:7], huge[::3, :9])
    assert not overlaps(huge[:, :-9:7], huge[::3, -9:])
    assert not overlaps(huge[:, 8::6], huge[:, 1::4])


def test_views_of_more_elements_than_an_integer_counts_are_answered() -> None:
    most = 1 << 20
    a = View("RAM", 0, 1 << 62, 0, (most, most, most, most), (1003, 1007, 1009, 1013), 1)
    b = View("RAM", 0, 1 << 62, 5_000_001, (9,), (7,), 1)
    assert overlaps(a, b)
    assert not overlaps(a, View("RAM", 0, 1 << 62, 1004, (3,), (1,), 1))


def test_overlap_of_what_has_no_memory_is_refused() -> None:
    sparse = torch.eye(2).to_sparse()
    with pytest.raises(TypeError, match="must be strided"):
        overlaps(torch.zeros(1), sparse)
    with pytest.raises(TypeError, match="must be strided"):
        has_internal_overlap(sparse)

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmap.dataflow import Tensor, TensorView, check_memory_overlap, compute_view_footprint
from memmap.dataflow.testing import tensor_views

SHAPES = st.lists(st.integers(0, 4), max_size=3)
DTYPES = st.sampled_from(["float32", "int8", "complex128", "bool"])


def indices_of(view: TensorView) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, view.shape)))


def test_a_tensor_starts_as_float32_zeros_and_says_its_sizes() -> None:
    tensor = Tensor("A", (3, 5))
    assert tensor.dtype == "float32"
    assert (tensor.shape, tensor.size, tensor.get_storage_size()) == ((3, 5), 15, 15)
    assert not tensor.data.any()
    assert repr(tensor) == "Tensor('A', shape=(3, 5), dtype='float32')"


def test_the_memory_of_a_tensor_cannot_be_replaced() -> None:
    with pytest.raises(AttributeError):
        Tensor("A", (2,)).data = np.ones(2)  # type: ignore[misc]  # what the test is about


@pytest.mark.parametrize("dtype", ["object", "datetime64[s]", "U3"])
def test_elements_that_are_no_numbers_are_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match="Tensor A: dtype must be a type of numbers, got"):
        Tensor("A", (2,), dtype)


@given(SHAPES, DTYPES)
def test_the_default_view_is_the_whole_tensor(shape: list[int], dtype: str) -> None:
    tensor = Tensor("A", shape, dtype)
    view = TensorView("all", tensor)
    assert view.shape == tensor.shape
    assert view.numpy().shape == tensor.shape
    assert compute_view_footprint(view) == list(range(tensor.size))
    assert view._compute_default_stride() == view.stride
    if tensor.size:
        assert np.shares_memory(view.numpy(), tensor.data)


def test_the_default_stride_of_3_4_5_is_20_5_1() -> None:
    assert TensorView("all", Tensor("A", (3, 4, 5))).stride == (20, 5, 1)


@given(st.data(), st.integers(1, 12), DTYPES)
def test_the_array_reaches_each_element_at_its_physical_index(
    data: st.DataObject, size: int, dtype: str
) -> None:
    tensor = Tensor("A", (size,), dtype)
    tensor.data[...] = np.arange(size)
    view = data.draw(tensor_views(tensor))
    array = view.numpy()
    for index in indices_of(view):
        assert array[index] == tensor.data[view.get_physical_index(index)]
    assert not array.size or np.shares_memory(array, tensor.data)


@given(st.data(), st.integers(1, 12), DTYPES)
def test_the_footprint_is_the_set_of_physical_indices(
    data: st.DataObject, size: int, dtype: str
) -> None:
    view = data.draw(tensor_views(Tensor("A", (size,), dtype)))
    expected = sorted({view.get_physical_index(index) for index in indices_of(view)})
    assert compute_view_footprint(view) == expected


@given(st.data(), st.integers(1, 12))
def test_views_of_one_tensor_overlap_if_their_footprints_meet(
    data: st.DataObject, size: int
) -> None:
    tensor = Tensor("A", (size,))
    first, second = data.draw(tensor_views(tensor)), data.draw(tensor_views(tensor))
    common = set(compute_view_footprint(first)) & set(compute_view_footprint(second))
    assert check_memory_overlap(first, second) == bool(common)


def test_views_of_different_tensors_never_overlap() -> None:
    first, second = TensorView("x", Tensor("A", (2,))), TensorView("x", Tensor("A", (2,)))
    assert not check_memory_overlap(first, second)


@pytest.mark.parametrize(
    ("offset", "shape", "stride"),
    [(13, (2, 2), (4, 1)), (-1, (1,), (1,)), (0, (17,), (1,)), (3, (5,), (-1,)), (1, None, None)],
)
def test_a_view_that_leaves_its_tensor_is_refused(
    offset: int, shape: tuple[int, ...] | None, stride: tuple[int, ...] | None
) -> None:
    with pytest.raises(ValueError, match=r"view v: .* every element must lie in Tensor\('A'"):
        TensorView("v", Tensor("A", (4, 4)), offset, shape, stride)


def test_an_empty_view_may_start_anywhere() -> None:
    view = TensorView("v", Tensor("A", (4,)), 100, (0, 3), (1, 1))
    assert compute_view_footprint(view) == []
    assert view.numpy().shape == (0, 3)


@pytest.mark.parametrize(("shape", "stride"), [((2, 2), (1,)), ((-1,), (1,))])
def test_sizes_and_strides_that_make_no_view_are_refused(
    shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"view v: .* every element must lie in"):
        TensorView("v", Tensor("A", (4, 4)), 0, shape, stride)


def test_a_view_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="view v: tensor must be a Tensor, got ndarray"):
        TensorView("v", np.zeros(3))  # type: ignore[arg-type]  # what the test is about


def test_the_footprint_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="view must be a TensorView, got Tensor"):
        compute_view_footprint(Tensor("A", (2,)))  # type: ignore[arg-type]  # the test's subject


@pytest.mark.parametrize("index", [(2, 0), (0, -1), (0,), (0, 0, 0)])
def test_an_index_outside_the_shape_is_refused(index: tuple[int, ...]) -> None:
    view = TensorView("v", Tensor("A", (4, 4)), 0, (2, 2), (4, 1))
    with pytest.raises(IndexError, match=r"view v: indices must lie in the shape \(2, 2\), got"):
        view.get_physical_index(index)


def test_a_view_shows_how_it_was_made() -> None:
    view = TensorView("v", Tensor("A", (4, 4)), 5, (2, 2), (4, 1))
    assert repr(view) == "TensorView('v', 'A', offset=5, shape=(2, 2), stride=(4, 1))"


@pytest.mark.parametrize("name", ["name", "tensor", "offset", "shape", "stride", "memory"])
def test_a_view_cannot_be_changed(name: str) -> None:
    view = TensorView("v", Tensor("A", (4, 4)), 5, (2, 2), (4, 1))
    before = getattr(view, name)
    with pytest.raises(AttributeError, match=f"view v: a view must not change, got a new {name}"):
        setattr(view, name, before)
    assert getattr(view, name) is before


def test_a_tensor_of_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Tensor A: shape must .* from 0 on, got \(2, -1\)"):
        Tensor("A", (2, -1))


@pytest.mark.parametrize("shape", [3, (2.0,), None])
def test_a_shape_of_no_integers_is_refused(shape: Any) -> None:
    with pytest.raises(TypeError, match="Tensor A: shape must be made of integers from 0 on, got"):
        Tensor("A", shape)


@pytest.mark.parametrize(
    "entries", [(0.5,), ("1",), (0, 4), (0, (2.0,)), (0, (2,), (1.0,)), (0, (2,), ("1",))]
)
def test_a_view_of_no_integers_is_refused(entries: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="view v: offset, shape and stride must be integers"):
        TensorView("v", Tensor("A", (4,)), *entries)


def test_overlap_of_what_is_no_view_is_refused() -> None:
    tensor = Tensor("A", (4,))
    for pair in ((TensorView("v", tensor), tensor), (tensor, TensorView("v", tensor))):
        with pytest.raises(TypeError, match="check_memory_overlap: memory must be reached through"):
            check_memory_overlap(*pair)

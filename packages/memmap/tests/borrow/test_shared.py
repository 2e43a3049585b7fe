import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from memmap import overlaps
from memmap.borrow import (
    In,
    Out,
    OwnershipError,
    SharedVariable,
    _memory,
    function,
    shared,
    variable,
)
from memmap.borrow._memory import owner_of
from memmap.dataflow import Tensor, TensorView, compute_view_footprint
from memmap.dataflow.testing import tensor_views

Array = np.ndarray[Any, np.dtype[Any]]


def internal(variable: SharedVariable) -> torch.Tensor:
    value = variable.get_value(borrow=True, return_internal_type=True)
    assert isinstance(value, torch.Tensor)
    return value


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Views of a small array, of any strides and signs."""
    tensor = Tensor("memory", (12,), draw(st.sampled_from(["float64", "int16", "complex64"])))
    tensor.data[...] = np.arange(12)
    return draw(tensor_views(tensor)).numpy()


@given(arrays(), st.booleans())
def test_a_variable_has_the_value_it_was_made_from(array: Array, borrow: bool) -> None:
    variable = shared(array, borrow=borrow)
    value = variable.get_value()
    assert isinstance(value, np.ndarray)
    assert value.dtype == array.dtype
    np.testing.assert_array_equal(value, array)
    assert not variable.borrowed or borrow


@given(arrays(), arrays(), st.booleans())
def test_set_value_gives_the_value_that_was_set(first: Array, second: Array, borrow: bool) -> None:
    variable = shared(first)
    expected = second.copy()
    variable.set_value(second, borrow=borrow)
    value = variable.get_value()
    assert isinstance(value, np.ndarray)
    assert value.dtype == second.dtype
    np.testing.assert_array_equal(value, expected)
    assert overlaps(internal(variable), second) == (variable.borrowed and second.size > 0)


@given(arrays(), st.booleans(), st.data())
def test_any_view_of_the_own_memory_can_be_set(
    array: Array, borrow: bool, data: st.DataObject
) -> None:
    variable = shared(np.arange(6.0).reshape(2, 3))
    own = variable.get_value(borrow=True)
    assert isinstance(own, np.ndarray)
    rows = data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(1)]))
    columns = data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(1, 3)]))
    value = own[rows, columns]
    expected = value.copy()
    variable.set_value(value, borrow=borrow)
    np.testing.assert_array_equal(np.asarray(variable.get_value()), expected)


def as_torch(view: TensorView) -> torch.Tensor:
    """The same elements in torch, which has no negative strides: in another order."""
    lowest = min(compute_view_footprint(view), default=0)
    memory = torch.from_numpy(view.tensor.data)
    return memory.as_strided(view.shape, [abs(step) for step in view.stride], lowest)


@given(st.data(), st.integers(1, 12))
def test_memory_can_be_borrowed_exactly_if_no_byte_of_it_has_an_owner(
    data: st.DataObject, size: int
) -> None:
    tensor = Tensor("memory", (size,))
    first, second = (data.draw(tensor_views(tensor, overlap_itself=False)) for _ in range(2))
    owner = shared(as_torch(first), borrow=True, name="owner")
    if set(compute_view_footprint(first)) & set(compute_view_footprint(second)):
        with pytest.raises(OwnershipError, match="offered: memory must have one owner, got memory"):
            shared(as_torch(second), borrow=True, name="offered")
    else:
        assert shared(as_torch(second), borrow=True).borrowed
    assert owner.borrowed


def test_memory_is_free_again_when_its_owner_is_gone_or_has_moved() -> None:
    array = np.zeros(4)
    first = shared(array, borrow=True)
    del first
    gc.collect()
    second = shared(array, borrow=True)
    second.set_value(np.zeros(5))
    third = shared(array, borrow=True, name="third")
    with pytest.raises(OwnershipError, match="belongs to third"):
        second.set_value(array, borrow=True)
    assert third.borrowed


@pytest.mark.parametrize(
    "make",
    [lambda: torch.ones(3), lambda: torch._lazy_clone(torch.ones(3)),
     lambda: torch.ones(3, device="meta")],
    ids=["of the device", "copied on write", "meta"],
)  # fmt: skip
def test_memory_is_given_up_with_its_owner(make: Callable[[], torch.Tensor]) -> None:
    def owned() -> StorageWeakRef:
        owner = shared(make(), borrow=True)
        assert owner_of(internal(owner)) is owner
        return StorageWeakRef(internal(owner).untyped_storage())

    storage = owned()
    gc.collect()
    assert storage.expired()


def test_a_refused_value_changes_nothing() -> None:
    array = np.zeros(4)
    owner = shared(array, borrow=True)
    variable = shared(np.ones(3))
    before = internal(variable)
    with pytest.raises(OwnershipError):
        variable.set_value(array, borrow=True)
    assert internal(variable) is before
    assert owner_of(before) is variable
    assert owner_of(torch.from_numpy(array)) is owner


def test_an_owner_that_moves_many_times_is_registered_once() -> None:
    variable = shared(np.zeros(1))
    n_before = len(_memory._owners)
    for size in range(2, 200):
        variable.set_value(np.zeros(size))
    assert len(_memory._owners) == n_before
    assert owner_of(internal(variable)) is variable


def test_interleaved_memory_may_have_two_owners() -> None:
    array = np.zeros(6)
    even, odd = shared(array[::2], borrow=True), shared(array[1::2], borrow=True)
    assert even.borrowed and odd.borrowed
    array = np.zeros(12)
    by_two, by_four = shared(array[0:6:2], borrow=True), shared(array[1::4], borrow=True)
    assert by_two.borrowed and by_four.borrowed


def test_an_owner_that_has_moved_leaves_nothing_behind() -> None:
    array = np.zeros(2)
    variable = shared(array, borrow=True)
    variable.set_value(np.zeros(3))
    assert owner_of(torch.from_numpy(array)) is None


@pytest.mark.parametrize("borrow", [False, True])
def test_a_transpose_of_the_own_memory_can_be_set(borrow: bool) -> None:
    variable = shared(torch.arange(9.0).view(3, 3))
    variable.set_value(internal(variable).T, borrow=borrow)
    assert internal(variable).tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_a_borrowed_value_is_overwritten_in_place() -> None:
    array = np.zeros(3)
    variable = shared(array, borrow=True)
    variable.set_value(np.arange(3.0))
    assert array.tolist() == [0, 1, 2]
    assert variable.borrowed


def test_the_same_bytes_of_another_dtype_are_another_value() -> None:
    array = np.ones(2)
    variable = shared(array, borrow=True)
    variable.set_value(array.view(np.int64), borrow=True)
    value = variable.get_value()
    assert isinstance(value, np.ndarray)
    assert value.dtype == np.int64
    np.testing.assert_array_equal(value, np.ones(2).view(np.int64))


def test_a_conjugate_of_the_own_memory_is_another_value() -> None:
    variable = shared(torch.tensor([1 + 2j]))
    variable.set_value(internal(variable).conj(), borrow=True)
    assert torch.as_tensor(variable.get_value()).tolist() == [1 - 2j]
    variable.set_value(internal(variable).conj())
    assert torch.as_tensor(variable.get_value()).tolist() == [1 + 2j]


def test_a_value_with_a_history_of_gradients_is_taken_without_it() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    variable = shared(parameter, borrow=True)
    assert variable.borrowed
    assert not internal(variable).requires_grad


def test_a_value_that_overlaps_itself_is_copied_densely() -> None:
    variable = shared(torch.arange(4.0).unfold(0, 3, 1), borrow=True)
    assert not variable.borrowed
    assert internal(variable).is_contiguous()
    variable.set_value(torch.zeros(2, 3))
    assert internal(variable).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("value", [3.0, [1, 2], None])
def test_what_is_no_array_and_no_tensor_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="v: the value must be a NumPy array or a tensor, got"):
        shared(value, name="v")  # type: ignore[arg-type]  # what the test is about
    variable = shared(np.zeros(2), name="v")
    with pytest.raises(TypeError, match="v: the value must be a NumPy array or a tensor, got"):
        variable.set_value(value)  # type: ignore[arg-type]  # what the test is about


def test_a_sparse_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"v: a tensor must be strided, got layout"):
        shared(torch.eye(2).to_sparse(), name="v")


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(TypeError, match="v: an array must have no mask, got a MaskedArray"):
        shared(np.ma.masked_equal(np.arange(3), 1), name="v")


def test_a_dtype_that_torch_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match="v: torch must have the dtype, got datetime64"):
        shared(np.zeros(2, "datetime64[s]"), name="v")


def test_a_dtype_that_numpy_lacks_is_refused_where_arrays_are_promised() -> None:
    variable = shared(np.zeros(2), name="v")
    with pytest.raises(TypeError, match="v: NumPy must have the dtype, because the variable was m"):
        variable.set_value(torch.zeros(2, dtype=torch.bfloat16))
    assert internal(variable).dtype == torch.float64


def test_a_variable_shows_what_it_holds() -> None:
    assert repr(shared(np.zeros((2, 3)), name="v")) == (
        "SharedVariable('v', shape=(2, 3), dtype=torch.float64, device='cpu', borrowed=False)"
    )
    assert shared(np.zeros(1)).name != shared(np.zeros(1)).name


def test_a_flag_that_is_no_truth_value_is_refused() -> None:
    yes: Any = "yes"
    with pytest.raises(TypeError, match=r"^x: borrow must be True or False, got 'yes'$"):
        shared(torch.zeros(2), borrow=yes, name="x")
    variable = shared(torch.zeros(2), name="x")
    with pytest.raises(TypeError, match=r"^x: borrow must be True or False, got 'yes'$"):
        variable.set_value(torch.ones(2), borrow=yes)
    with pytest.raises(TypeError, match=r"^x: borrow must be"):
        variable.get_value(borrow=yes)
    with pytest.raises(TypeError, match=r"^x: return_internal_type must be"):
        variable.get_value(return_internal_type=yes)


@pytest.mark.parametrize("borrow", [False, True])
def test_values_of_inference_mode_are_updated_in_it_and_outside(borrow: bool) -> None:
    with torch.inference_mode():
        array, tensor = np.zeros(2), torch.zeros(2)
        of_array, of_tensor = shared(array, borrow), shared(tensor, borrow)
        assert of_array.borrowed is borrow and not of_tensor.borrowed
        of_array.set_value(np.ones(3), borrow)
    step = function([], [], updates={s: s + 1 for s in (of_array, of_tensor)})
    for mode in (True, False):
        with torch.inference_mode(mode):
            step()
    assert of_array.tensor.tolist() == [3, 3, 3] and of_tensor.tensor.tolist() == [2, 2]


def test_arguments_of_inference_mode_are_not_overwritten() -> None:
    x = variable("x")
    double = function([In(x, mutable=True)], Out(2 * x, borrow=True))
    with torch.inference_mode():
        ones = torch.ones(2)
        double(ones)
    twos = double(ones)
    assert isinstance(twos, torch.Tensor)
    assert twos.tolist() == [2, 2] and ones.tolist() == [1, 1]

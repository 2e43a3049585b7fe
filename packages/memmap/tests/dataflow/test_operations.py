from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmap.dataflow import (
    BinaryOperation,
    FillOperation,
    Operation,
    ReduceOperation,
    Tensor,
    TensorView,
    TracedView,
    TransformOperation,
    trace,
)
from memmap.dataflow.testing import tensor_views


def tensor_of(values: object, name: str = "A", dtype: str = "int64") -> Tensor:
    array = np.asarray(values)
    tensor = Tensor(name, array.shape, dtype)
    tensor.data[...] = array
    return tensor


def view_of_all(tensor: Tensor) -> TensorView:
    return TensorView(tensor.name, tensor)


@given(st.data(), st.integers(1, 12))
def test_fill_writes_the_footprint_and_nothing_else(data: st.DataObject, size: int) -> None:
    tensor = tensor_of(np.arange(size))
    view = data.draw(tensor_views(tensor))
    expected = tensor.data.copy()
    for index in np.ndindex(view.shape):
        expected[view.get_physical_index(index)] = -7
    FillOperation("fill", -7).set_outputs(view).execute()
    np.testing.assert_array_equal(tensor.data, expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.0, "int32"), (0.1, "float32"), (2j, "complex64"), (2 + 0j, "int8"), (True, "float64"),
     (float("nan"), "float32"), (float("inf"), "float16"), (-128, "int8"), (1, "bool")],
)  # fmt: skip
def test_fill_converts_a_value_that_the_dtype_can_hold(value: complex, dtype: str) -> None:
    tensor = Tensor("A", (3,), dtype)
    FillOperation("fill", value).set_outputs(view_of_all(tensor)).execute()
    expected = value.real if np.dtype(dtype).kind != "c" else value
    np.testing.assert_array_equal(tensor.data, np.full(3, expected).astype(dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(0.5, "int32"), (300, "int8"), (-1, "uint8"), (2, "bool"), (1j, "float64"),
     (float("nan"), "int64"), (1e300, "float32"), (10**30, "int64")],
)  # fmt: skip
def test_fill_refuses_a_value_that_the_dtype_cannot_hold(value: complex, dtype: str) -> None:
    tensor = Tensor("A", (3,), dtype)
    fill = FillOperation("fill", value).set_outputs(view_of_all(tensor))
    with pytest.raises(TypeError, match="fill: the outputs' dtype must hold the value"):
        fill.execute()
    assert not tensor.data.any()


def test_fill_without_a_value_writes_ones() -> None:
    tensor = Tensor("A", (2,))
    FillOperation("fill").set_outputs(view_of_all(tensor)).execute()
    assert tensor.data.tolist() == [1, 1]


def test_transform_copies_by_default() -> None:
    source, target = tensor_of([1, 2, 3]), tensor_of([0, 0, 0])
    copy = TransformOperation("copy").set_inputs(view_of_all(source))
    copy.set_outputs(view_of_all(target)).execute()
    assert target.data.tolist() == [1, 2, 3]
    assert copy.result is None


@given(st.data(), st.integers(1, 12), st.integers(1, 2))
def test_everything_is_read_before_anything_is_written(
    data: st.DataObject, size: int, n_outputs: int
) -> None:
    tensor = tensor_of(np.arange(size))
    read = data.draw(tensor_views(tensor))
    expected = np.arange(size)
    before = expected.copy()
    outputs = []
    for _ in range(n_outputs):
        other = data.draw(tensor_views(tensor, overlap_itself=False))
        offset, stride = (read.offset, read.stride) if other.shape != read.shape else (
            other.offset, other.stride)  # fmt: skip
        output = TensorView("out", tensor, offset, read.shape, stride)
        outputs.append(output)
    if any(len({o.get_physical_index(i) for i in np.ndindex(o.shape)}) < o.numpy().size
           for o in outputs):  # fmt: skip
        return
    for output in outputs:
        for index in np.ndindex(read.shape):
            expected[output.get_physical_index(index)] = before[read.get_physical_index(index)]
    TransformOperation("copy").set_inputs(read).set_outputs(*outputs).execute()
    np.testing.assert_array_equal(tensor.data, expected)


def test_a_result_that_is_a_view_of_an_input_is_not_torn_by_the_first_of_two_outputs() -> None:
    tensor = tensor_of([1, 2, 3, 4])
    head, tail = TensorView("head", tensor, 0, (3,)), TensorView("tail", tensor, 1, (3,))
    TransformOperation("copy").set_inputs(head).set_outputs(tail, head).execute()
    assert tensor.data.tolist() == [1, 2, 3, 3]


@pytest.mark.parametrize(("axis", "expected"), [(0, [5, 7, 9]), (-1, [6, 15])])
def test_reduce_sums_along_its_axis(axis: int, expected: list[int]) -> None:
    source, target = tensor_of([[1, 2, 3], [4, 5, 6]]), tensor_of(np.zeros(len(expected)), "B")
    reduce = ReduceOperation("sum", axis).set_inputs(view_of_all(source))
    reduce.set_outputs(view_of_all(target)).execute()
    assert target.data.tolist() == expected


def test_reduce_takes_any_numpy_reduction() -> None:
    source, target = tensor_of([[1, 5, 3]]), tensor_of([0], "B")
    reduce = ReduceOperation("max", function=np.max).set_inputs(view_of_all(source))
    reduce.set_outputs(view_of_all(target)).execute()
    assert target.data.tolist() == [5]


def test_binary_adds_by_default_and_takes_any_function() -> None:
    x, y = tensor_of([1, 2]), tensor_of([10, 20], "B")
    views = view_of_all(x), view_of_all(y)
    BinaryOperation("add").set_inputs(*views).set_outputs(views[0]).execute()
    assert x.data.tolist() == [11, 22]
    subtract = BinaryOperation("subtract", np.subtract).set_inputs(*views).set_outputs(views[1])
    subtract.execute()
    assert y.data.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (TransformOperation, [1, 2]),
        (ReduceOperation, 3),
        (partial(TransformOperation, function=lambda x: x[::-1]), [2, 1]),
    ],
)
def test_an_operation_without_outputs_keeps_what_it_computed(
    make: Callable[[str], TransformOperation | ReduceOperation], expected: object
) -> None:
    source = tensor_of([1, 2])
    operation = make("read").set_inputs(view_of_all(source))
    operation.execute()
    source.data[...] = 0
    assert operation.result is not None
    assert operation.result.tolist() == expected


def test_a_function_cannot_write_to_its_input() -> None:
    def double(x: np.ndarray[tuple[int], np.dtype[np.int64]]) -> object:
        x *= 2
        return x

    x = view_of_all(tensor_of([1, 2]))
    operation = TransformOperation("double", double).set_inputs(x)  # type: ignore[arg-type]  # test
    with pytest.raises(ValueError, match="read-only"):
        operation.execute()


@pytest.mark.parametrize(
    ("kind", "n_inputs", "expected"),
    [
        (FillOperation, 1, 0),
        (TransformOperation, 0, 1),
        (ReduceOperation, 2, 1),
        (BinaryOperation, 1, 2),
    ],
)
def test_a_wrong_number_of_inputs_is_refused(
    kind: Callable[[str], Operation], n_inputs: int, expected: int
) -> None:
    view = view_of_all(tensor_of([1]))
    operation = kind("op")
    operation.set_inputs(*[view] * n_inputs).set_outputs(view)
    with pytest.raises(
        ValueError,
        match=rf"op: a {type(operation).__name__} must have {expected} input\(s\), got {n_inputs}",
    ):
        operation.execute()


def test_an_output_of_another_shape_is_refused_before_any_output_is_written() -> None:
    right, wrong = tensor_of([0, 0], "right"), tensor_of([0], "wrong")
    copy = TransformOperation("copy").set_inputs(view_of_all(tensor_of([1, 2])))
    copy.set_outputs(view_of_all(right), view_of_all(wrong))
    with pytest.raises(
        ValueError,
        match=r"copy: output wrong must have the shape of the result, \(2,\), got \(1,\)",
    ):
        copy.execute()
    assert right.data.tolist() == [0, 0]


def test_an_output_of_a_dtype_that_loses_the_result_is_refused() -> None:
    source, target = Tensor("A", (2,), "float64"), Tensor("B", (2,), "int64")
    copy = TransformOperation("copy").set_inputs(view_of_all(source))
    with pytest.raises(TypeError, match="copy: output B must hold float64, got int64"):
        copy.set_outputs(view_of_all(target)).execute()


def test_an_output_that_overlaps_itself_is_refused() -> None:
    target = TensorView("same", tensor_of([0, 0]), 0, (2,), (0,))
    copy = TransformOperation("copy").set_inputs(view_of_all(tensor_of([1, 2])))
    with pytest.raises(ValueError, match="copy: output same must not overlap itself, got stride"):
        copy.set_outputs(target).execute()


def test_only_views_can_be_read_and_written() -> None:
    with pytest.raises(TypeError, match="op: memory must be reached through a TensorView, got T"):
        Operation("op").set_inputs(tensor_of([1]))  # type: ignore[arg-type]  # the test's subject
    with pytest.raises(TypeError, match="op: memory must be reached through a TensorView, got int"):
        Operation("op").set_outputs(3)  # type: ignore[arg-type]  # the test's subject


def test_views_of_a_trace_cannot_be_executed_on() -> None:
    import torch

    (traced,) = trace(torch.Tensor.neg_, torch.ones(2))
    (view,) = traced.output_views
    assert isinstance(view, TracedView)
    with pytest.raises(
        TypeError, match="fill: a FillOperation must work on TensorViews, got TracedView"
    ):
        FillOperation("fill").set_outputs(view).execute()


def test_an_operation_that_does_not_say_what_it_computes_cannot_be_executed() -> None:
    with pytest.raises(NotImplementedError, match="op: execute must be defined by a subclass"):
        Operation("op").execute()


def test_inputs_and_outputs_add_up_in_the_order_given() -> None:
    views = [TensorView(name, tensor_of([1])) for name in "abcd"]
    operation = Operation("op").set_inputs(views[0]).set_inputs(views[1], views[2])
    assert operation.set_outputs(views[3]) is operation
    assert operation.input_views == views[:3]
    assert repr(operation) == "Operation('op', reads=['a', 'b', 'c'], writes=['d'])"


def test_reading_and_writing_one_place_element_for_element_is_no_self_hazard() -> None:
    tensor = tensor_of([1, 2, 3])
    here, again = view_of_all(tensor), view_of_all(tensor)
    assert Operation("op").set_inputs(here).set_outputs(here).self_hazards() == ()
    assert Operation("op").set_inputs(here).set_outputs(again).self_hazards() == ()


def test_reading_what_is_written_elsewhere_is_a_self_hazard() -> None:
    tensor = tensor_of([1, 2, 3])
    head, tail = TensorView("head", tensor, 0, (2,)), TensorView("tail", tensor, 1, (2,))
    (hazard,) = Operation("op").set_inputs(head).set_outputs(tail).self_hazards()
    assert (hazard.written, hazard.other, hazard.other_is) == (tail, head, "read")
    assert str(hazard) == "op: writes tail, which overlaps head that it reads"


def test_two_outputs_that_overlap_are_a_self_hazard() -> None:
    tensor = tensor_of([1, 2, 3])
    head, tail = TensorView("head", tensor, 0, (2,)), TensorView("tail", tensor, 1, (2,))
    (hazard,) = Operation("op").set_outputs(head, tail).self_hazards()
    assert str(hazard) == "op: writes head, which overlaps tail that it also writes"


def test_an_output_that_overlaps_itself_is_a_self_hazard_unless_it_gets_one_value() -> None:
    same = TensorView("same", tensor_of([1, 2]), 0, (2,), (0,))
    (hazard,) = Operation("op").set_outputs(same).self_hazards()
    assert str(hazard) == "op: writes same, which overlaps itself"
    assert FillOperation("fill").set_outputs(same, same).self_hazards() == ()

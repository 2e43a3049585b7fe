"""Theano's page "Understanding Memory Aliasing for Speed and Correctness", statement by statement.

Each test is named after what the page states. Where the page and Theano's code disagree, the code
is followed, and the test says so.
"""

import inspect
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from memmap import overlaps
from memmap.borrow import (
    In,
    Out,
    OwnershipError,
    SharedVariable,
    apply,
    function,
    shared,
    variable,
)

# A device that is not the CPU, and that every machine has.
ELSEWHERE = "meta"

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def array_of_ones() -> Array:
    return np.ones(2, dtype="float32")


def numpy_value(
    variable: SharedVariable, borrow: bool = False
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    value = variable.get_value(borrow=borrow)
    assert isinstance(value, np.ndarray)
    return value


def internal(variable: SharedVariable) -> torch.Tensor:
    value = variable.get_value(borrow=True, return_internal_type=True)
    assert isinstance(value, torch.Tensor)
    return value


# The memory model: two spaces


def test_managed_memory_does_not_overlap_the_memory_of_others() -> None:
    array = array_of_ones()
    assert not overlaps(internal(shared(array)), array)


def test_functions_only_modify_managed_memory() -> None:
    x = variable("x")
    s = shared(torch.zeros(2))
    argument = array_of_ones()
    f = function([x], (x + 1) * x - 3, updates={s: s + x})
    f(argument)
    assert argument.tolist() == [1, 1]
    assert internal(s).tolist() == [1, 1]


def test_functions_refuse_to_modify_what_is_not_theirs() -> None:
    x = variable("x")
    argument = array_of_ones()
    f = function([x], apply(lambda x: x.add_(1), x))
    with pytest.raises(RuntimeError, match="a function must write only to memory that it all"):
        f(argument)
    assert argument.tolist() == [1, 1]


def test_managed_memory_includes_shared_variables_and_temporaries() -> None:
    x = variable("x")
    f = function([x], Out(x + 1, borrow=True), name="f")
    s = shared(torch.zeros(2), name="s")
    kept = f(torch.ones(2))
    assert isinstance(kept, torch.Tensor)
    for owned, owner in ((internal(s), "s"), (kept, "output 0 of f")):
        with pytest.raises(OwnershipError, match=f"got memory that belongs to {owner}"):
            shared(owned, borrow=True)


def test_managed_memory_may_be_spread_across_devices() -> None:
    here, there = shared(array_of_ones()), shared(array_of_ones(), device=ELSEWHERE)
    assert internal(here).device.type == "cpu"
    assert internal(there).device.type == ELSEWHERE


def test_the_memory_of_a_shared_variable_is_unique() -> None:
    array = np.zeros(8)
    first = shared(array[:5], borrow=True, name="first")
    with pytest.raises(
        OwnershipError,
        match="second: memory must have one owner, got memory that belongs to first",
    ):
        shared(array[4:], borrow=True, name="second")
    third = shared(np.zeros(3), name="third")
    before = internal(third)
    with pytest.raises(OwnershipError, match=r"third: memory must have one owner, .* to first"):
        third.set_value(array[3:6], borrow=True)
    assert internal(third) is before
    assert shared(array[5:], borrow=True).borrowed
    assert first.borrowed


def test_managed_memory_is_constant_while_no_function_runs() -> None:
    s = shared(np.arange(4.0))
    x = variable("x")
    f = function([x], s * x, updates={s: s + 1})
    before = numpy_value(s).tolist()
    shared(np.zeros(4)).set_value(np.ones(4))
    numpy_value(s)[...] = 7
    assert numpy_value(s).tolist() == before
    result = f(np.ones(4))
    assert isinstance(result, torch.Tensor)
    result.fill_(7)
    assert numpy_value(s).tolist() == [1, 2, 3, 4]


def test_by_default_values_in_and_out_belong_to_the_user() -> None:
    x = variable("x")
    s = shared(torch.ones(2))
    f = function([x], [x, s, x + s, apply(lambda x: x[:1], x)])
    argument = torch.ones(2)
    first, second = f(argument), f(argument)
    values = [*first, *second]
    for i, value in enumerate(values):
        others = [argument, internal(s), *values[:i], *values[i + 1 :]]
        assert not any(overlaps(value, other) for other in others)


@pytest.mark.parametrize(
    "callable_", [shared, SharedVariable.get_value, SharedVariable.set_value, In, Out]
)
def test_the_distinction_is_kept_unless_borrow_is_true(callable_: object) -> None:
    assert callable(callable_)
    assert inspect.signature(callable_).parameters["borrow"].default is False


# Borrowing when creating shared variables


def test_creating_the_example_of_the_page() -> None:
    np_array = array_of_ones()
    s_default = shared(np_array)
    s_false = shared(np_array, borrow=False)
    s_true = shared(np_array, borrow=True)
    np_array += 1
    assert numpy_value(s_default).tolist() == [1, 1]
    assert numpy_value(s_false).tolist() == [1, 1]
    assert numpy_value(s_true).tolist() == [2, 2]


def test_creating_without_borrow_is_a_copy() -> None:
    tensor = torch.ones(2)
    s = shared(tensor)
    tensor.add_(1)
    assert internal(s).tolist() == [1, 1]
    assert not s.borrowed


def test_creating_with_borrow_uses_the_very_memory_on_a_cpu() -> None:
    array, tensor = array_of_ones(), torch.ones(2)
    for value, s in ((array, shared(array, borrow=True)), (tensor, shared(tensor, borrow=True))):
        assert s.borrowed
        assert overlaps(internal(s), value)
        internal(s).fill_(5)
        assert value.tolist() == [5, 5]


def test_creating_on_another_device_borrow_has_no_effect() -> None:
    s = shared(array_of_ones(), borrow=True, device=ELSEWHERE)
    assert not s.borrowed
    assert internal(s).device.type == ELSEWHERE


@pytest.mark.gpu
def test_creating_on_a_gpu_borrow_has_no_effect_for_host_arrays() -> None:
    device = torch.accelerator.current_accelerator()
    array = array_of_ones()
    s = shared(array, borrow=True, device=device)
    array += 1
    assert not s.borrowed
    assert numpy_value(s, borrow=True).tolist() == [1, 1]
    on_gpu = torch.ones(2, device=device)
    same = shared(on_gpu, borrow=True)
    assert same.borrowed
    value = same.get_value()
    assert isinstance(value, torch.Tensor)
    assert value.device == on_gpu.device


@pytest.mark.parametrize(
    "value",
    [
        np.arange(3.0)[::-1],
        np.arange(3.0).astype(">f8"),
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.frombuffer(np.arange(3.0).tobytes()),
        torch.arange(3.0).expand(2, 3),
        np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64),
    ],
    ids=["reversed", "big-endian", "read-only", "frozen", "expanded", "unaligned"],
)
def test_aliasing_is_not_guaranteed_and_borrowed_tells(
    value: Array | torch.Tensor,
) -> None:
    s = shared(value, borrow=True)
    assert not s.borrowed
    assert not overlaps(internal(s), value)
    np.testing.assert_array_equal(np.asarray(s.get_value()), np.asarray(value))


def test_aliasing_may_be_kept_or_ended_when_a_function_updates_the_variable() -> None:
    # Here it is kept exactly as long as the shape stays the same, and `borrowed` tells.
    x = variable("x")
    array = array_of_ones()
    s = shared(array, borrow=True)
    function([x], x, updates={s: s + x})(np.array([1, 2], np.float32))
    assert s.borrowed
    assert array.tolist() == [2, 3]
    function([x], x, updates={s: x})(np.array([1, 2, 3], np.float32))
    assert not s.borrowed
    assert not overlaps(internal(s), array)
    assert array.tolist() == [2, 3]


# Borrowing when accessing: retrieving


def test_get_value_without_borrow_never_aliases_managed_memory() -> None:
    for value in (array_of_ones(), torch.ones(2)):
        s = shared(value)
        for copy in (s.get_value(), s.get_value(borrow=False, return_internal_type=True)):
            assert not overlaps(copy, internal(s))


def test_get_value_with_borrow_may_alias_managed_memory() -> None:
    for value in (array_of_ones(), torch.ones(2)):
        s = shared(value)
        assert overlaps(s.get_value(borrow=True), internal(s))


def test_get_value_with_borrow_may_still_copy() -> None:
    s = shared(np.array([1 + 2j, 3j]))
    s.set_value(torch.tensor([1 + 2j, 3j], dtype=torch.complex128).conj(), borrow=True)
    value = s.get_value(borrow=True)
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [1 - 2j, -3j]
    assert not overlaps(value, internal(s))


def test_get_value_returns_the_type_that_the_variable_was_made_from() -> None:
    made_from_array, made_from_tensor = shared(array_of_ones()), shared(torch.ones(2))
    made_from_array.set_value(torch.zeros(2))
    made_from_tensor.set_value(array_of_ones())
    assert isinstance(made_from_array.get_value(), np.ndarray)
    assert isinstance(made_from_tensor.get_value(), torch.Tensor)


def test_get_value_of_data_made_on_a_device_stays_on_that_device() -> None:
    value = shared(torch.ones(2, device=ELSEWHERE)).get_value()
    assert isinstance(value, torch.Tensor)
    assert value.device.type == ELSEWHERE


def test_return_internal_type_with_borrow_is_the_object_itself_in_constant_time() -> None:
    s = shared(array_of_ones())
    assert internal(s) is internal(s)
    assert isinstance(internal(s), torch.Tensor)


def test_return_internal_type_without_borrow_is_a_deep_copy_of_it() -> None:
    s = shared(array_of_ones())
    copy = s.get_value(borrow=False, return_internal_type=True)
    assert isinstance(copy, torch.Tensor)
    assert not overlaps(copy, internal(s))
    assert copy.tolist() == [1, 1]


# Borrowing when accessing: assigning


def test_set_value_without_borrow_copies() -> None:
    array = array_of_ones()
    s = shared(np.zeros(2, "float32"))
    s.set_value(array)
    array += 1
    assert numpy_value(s).tolist() == [1, 1]


def test_set_value_with_borrow_may_use_the_buffer_provided() -> None:
    array = array_of_ones()
    s = shared(np.zeros(2, "float32"))
    s.set_value(array, borrow=True)
    assert s.borrowed
    assert overlaps(internal(s), array)


def test_the_standard_pattern_is_as_fast_as_an_update_in_place() -> None:
    def some_inplace_fn(v: Array) -> Array:
        v += 1
        return v

    s = shared(array_of_ones())
    before = internal(s)
    s.set_value(some_inplace_fn(numpy_value(s, borrow=True)), borrow=True)
    assert internal(s) is before
    assert numpy_value(s).tolist() == [2, 2]
    assert not s.borrowed


def test_set_value_of_the_same_shape_reuses_the_memory() -> None:
    s = shared(array_of_ones())
    before = internal(s)
    s.set_value(np.zeros(2, "float32"))
    assert internal(s) is before
    assert before.tolist() == [0, 0]
    s.set_value(np.zeros(3, "float32"))
    assert internal(s) is not before


def test_set_value_need_not_be_contiguous() -> None:
    s = shared(np.zeros((2, 3)))
    s.set_value(np.arange(6.0).reshape(3, 2).T)
    assert numpy_value(s).tolist() == [[0, 2, 4], [1, 3, 5]]
    s.set_value(np.arange(12.0).reshape(2, 6)[:, ::2], borrow=True)
    assert s.borrowed
    assert numpy_value(s).tolist() == [[0, 2, 4], [6, 8, 10]]


# Borrowing when constructing functions


def test_the_function_of_the_page() -> None:
    x = variable("x")
    y = 2 * x
    f = function([In(x, borrow=True)], Out(y, borrow=True))
    result = f(np.ones((2, 2)))
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [[2, 2], [2, 2]]


def test_a_borrowed_input_is_not_overwritten_as_in_the_code_and_not_as_on_the_page() -> None:
    # The page says that the argument may be reused as a buffer. In Theano's code `borrow` lets
    # an output be the argument, and only `mutable` lets the argument be overwritten.
    x = variable("x")
    argument = array_of_ones()
    f = function([In(x, borrow=True)], Out((x + 1) * 2 - x, borrow=True))
    f(argument)
    assert argument.tolist() == [1, 1]


def test_a_borrowed_input_may_be_returned_in_its_own_memory() -> None:
    x = variable("x")
    argument = array_of_ones()
    for in_borrows in (False, True):
        for out_borrows in (False, True):
            f = function([In(x, borrow=in_borrows)], Out(x, borrow=out_borrows))
            result = f(argument)
            assert isinstance(result, torch.Tensor)
            assert overlaps(result, argument) == (in_borrows and out_borrows)


def test_a_mutable_input_may_be_reused_as_a_buffer_and_overwritten() -> None:
    x = variable("x")
    argument = array_of_ones()
    f = function([In(x, mutable=True)], Out((x + 1) * 2, borrow=True))
    result = f(argument)
    assert isinstance(result, torch.Tensor)
    assert argument.tolist() == [4, 4]
    assert overlaps(result, argument)


def test_mutable_implies_borrow() -> None:
    x = variable("x")
    assert In(x, mutable=True).borrow
    assert not In(x).borrow


def test_a_borrowed_output_is_the_same_buffer_at_each_call_and_overwritten() -> None:
    x = variable("x")
    f = function([x], Out(2 * x, borrow=True))
    first = f(array_of_ones())
    second = f(3 * array_of_ones())
    assert isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
    assert first.data_ptr() == second.data_ptr()
    assert first.tolist() == [6, 6]


def test_a_borrowed_output_may_be_overwritten_by_another_function() -> None:
    x = variable("x")
    s = shared(torch.zeros(2))
    read, add = function([], Out(s, borrow=True)), function([x], x, updates={s: s + x})
    value = read()
    assert isinstance(value, torch.Tensor)
    assert overlaps(value, internal(s))
    add(torch.ones(2))
    assert value.tolist() == [1, 1]


def test_an_output_is_not_borrowed_by_default_and_never_overwritten() -> None:
    x = variable("x")
    s = shared(torch.zeros(2))
    f = function([x], [2 * x, s], updates={s: s + x})
    first = f(torch.ones(2))
    f(torch.ones(2))
    assert [value.tolist() for value in first] == [[2, 2], [0, 0]]


def test_out_has_no_return_internal_type_as_in_the_code_and_not_as_on_the_page() -> None:
    with pytest.raises(TypeError, match="return_internal_type"):
        Out(variable("x"), return_internal_type=True)  # type: ignore[call-arg]  # test's subject


class Allocations(TorchDispatchMode):
    """Keeps every tensor in new memory of the CPU that an operator returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.new: list[torch.Tensor] = []

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        out = (kwargs or {}).get("out")
        if isinstance(result, torch.Tensor) and result.device.type == "cpu" and out is None:
            if not func.is_view:
                self.new.append(result)
        return result


def test_a_mutable_input_makes_a_function_need_less_memory() -> None:
    x = variable("x")
    y = (((x + 1) * 2) - 3) / 4
    for item, n_expected in ((In(x), 1), (In(x, borrow=True), 1), (In(x, mutable=True), 0)):
        f = function([item], Out(y, borrow=True))
        argument = torch.ones(1000)
        with Allocations() as allocations:
            f(argument)
        # In any case the four steps share what memory there is.
        assert len(allocations.new) == n_expected


def test_a_borrowed_output_makes_the_next_call_need_less_memory() -> None:
    x = variable("x")
    for borrow, n_expected in ((False, 1), (True, 0)):
        f = function([x], Out(2 * x, borrow=borrow))
        argument = torch.ones(1000)
        f(argument)
        with Allocations() as allocations:
            f(argument)
        assert len(allocations.new) == n_expected

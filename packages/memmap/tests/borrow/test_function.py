import warnings
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import overlaps
from memmap.borrow import (
    Expression,
    Function,
    In,
    Out,
    OwnershipError,
    SharedVariable,
    apply,
    function,
    shared,
    variable,
)
from memmap.borrow._expressions import AppliedFunction
from memmap.dataflow import trace

SIDE = 3


def internal(variable: SharedVariable) -> torch.Tensor:
    value = variable.get_value(borrow=True, return_internal_type=True)
    assert isinstance(value, torch.Tensor)
    return value


def call(f: Function, *args: Any) -> list[torch.Tensor]:
    result = f(*args)
    return result if isinstance(result, list) else [result]


def transpose(x: torch.Tensor) -> torch.Tensor:
    return x.T


def row(x: torch.Tensor) -> torch.Tensor:
    return x[:1]


@st.composite
def expressions(draw: st.DrawFn, leaves: list[Expression]) -> Expression:
    """A small graph on square matrices of whole numbers, which share what they can."""
    made = list(leaves)
    for _ in range(draw(st.integers(0, 6))):
        a, b = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        made.append(
            draw(
                st.sampled_from(
                    [a + b, a - b, a * b, -a, a + 1, 2 * a, 3 - a, a @ b, apply(transpose, a),
                     apply(torch.roll, a, 1), a + apply(row, b), a * 1]
                )
            )
        )  # fmt: skip
    return made[-1]


def value_of(expression: Expression, given_values: dict[Expression, torch.Tensor]) -> torch.Tensor:
    """The definition: compute everything in new memory."""
    if not isinstance(expression, AppliedFunction):
        return given_values[expression].clone()
    operands = [
        value_of(o, given_values) if isinstance(o, Expression) else torch.tensor(o)
        for o in expression.operands
    ]
    if expression.function is torch.roll:
        return torch.roll(operands[0], 1)
    return expression.function(*operands).clone()


def matrix(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (SIDE, SIDE), generator=generator)


@given(st.data())
def test_functions_compute_what_they_should_and_keep_to_the_rules(data: st.DataObject) -> None:
    x, y = variable("x"), variable("y")
    states = [shared(matrix(i)) for i in (1, 2)]
    some = expressions([x, y, *states])
    inputs = [In(v, data.draw(st.booleans()), data.draw(st.booleans())) for v in (x, y)]
    outputs = [Out(data.draw(some), data.draw(st.booleans())) for _ in range(2)]
    targets = data.draw(st.lists(st.sampled_from(states), unique=True))
    updates = {target: data.draw(some) for target in targets}
    f = function(inputs, outputs, updates=updates)

    to_stay: list[tuple[torch.Tensor, torch.Tensor]] = []
    results: list[torch.Tensor] = []
    for round_ in range(3):
        # Now and then a former result, or a view of an argument, comes back as an argument.
        choices = [matrix(10 * round_ + 3), *(r for r in results if r.shape == (SIDE, SIDE))]
        arguments = [data.draw(st.sampled_from(choices))]
        arguments.append(data.draw(st.sampled_from([*choices, arguments[0], arguments[0].T])))
        now = [value.clone() for value in (*arguments, *map(internal, states))]
        before: dict[Expression, torch.Tensor] = dict(zip((x, y, *states), now, strict=True))
        expected = [value_of(out.expression, before) for out in outputs]
        expected_states = [value_of(updates.get(s, s), before) for s in states]

        results = call(f, *arguments)

        for result, value in zip(results, expected, strict=True):
            assert torch.equal(result, value)
        for state, value in zip(states, expected_states, strict=True):
            assert torch.equal(internal(state), value)
        lent = [a for i, a in zip(inputs, arguments, strict=True) if i.mutable]
        written = [*lent, *(internal(state) for state in updates)]
        for argument, value in zip(arguments, before.values(), strict=False):
            assert torch.equal(argument, value) or any(overlaps(argument, w) for w in written)
        # What was returned without borrowing lies where nothing else does, and stays.
        for i, (out, result) in enumerate(zip(outputs, results, strict=True)):
            if not out.borrow:
                others = [*arguments, *map(internal, states), *results[:i], *results[i + 1 :]]
                assert not any(overlaps(result, other) for other in others)
        to_stay = [(r, v) for r, v in to_stay if not any(overlaps(r, a) for a in lent)]
        for kept, value in to_stay:
            assert torch.equal(kept, value)
        to_stay += [
            (result, result.clone())
            for out, result in zip(outputs, results, strict=True)
            if not out.borrow
        ]


@given(st.data())
def test_an_argument_that_is_not_mutable_is_never_written_to(data: st.DataObject) -> None:
    x, y = variable("x"), variable("y")
    some = expressions([x, y])
    outputs = [Out(data.draw(some), data.draw(st.booleans())) for _ in range(2)]
    f = function([In(x, borrow=data.draw(st.booleans())), In(y, mutable=True)], outputs)
    for _ in range(2):
        kept, lent = matrix(1), matrix(2)
        call(f, kept, lent)
        assert torch.equal(kept, matrix(1))


def test_one_output_is_returned_alone_and_several_as_a_list() -> None:
    x = variable("x")
    one, several = function([x], x + 1)(torch.zeros(1)), function([x], [x + 1])(torch.zeros(1))
    assert isinstance(one, torch.Tensor)
    assert isinstance(several, list)
    assert function([x], [])(torch.zeros(1)) == []


def test_outputs_that_are_one_value_are_returned_in_memory_of_their_own() -> None:
    x = variable("x")
    y = x + 1
    results = call(function([x], [y, y, apply(row, y), Out(y, borrow=True)]), torch.zeros(2, 2))
    for i, result in enumerate(results):
        assert not any(overlaps(result, other) for other in results[:i])
    borrowed = call(function([x], [Out(y, borrow=True)] * 2), torch.zeros(2, 2))
    assert overlaps(*borrowed)


def test_all_operators_give_what_torch_gives() -> None:
    x, y = variable("x"), variable("y")
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    pairs = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x**y, a**b),
        (x @ y, a @ b), (-x, -a), (1 + x, 1 + a), (1 - x, 1 - a),
        (2 * x, 2 * a), (2 / x, 2 / a), (2**x, 2**a),
        (x + 1, a + 1), (x - 1, a - 1), (x * 2, a * 2), (x / 2, a / 2), (x**2, a**2),
        (apply(torch.exp, x), a.exp()), (apply(torch.roll, x, 1), torch.roll(a, 1)),
    ]  # fmt: skip
    results = call(function([x, y], [mine for mine, _ in pairs]), a, b)
    for result, (_, expected) in zip(results, pairs, strict=True):
        assert torch.equal(result, expected)


def multiplies_complex_bfloat16() -> bool:
    """Return False for torch 2.15: it has a dtype for these products, but does not compute them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this dtype is experimental, once in a process
        try:
            return (1j * torch.ones(1, dtype=torch.bfloat16)).dtype is torch.complex64
        except NotImplementedError:
            return False


@pytest.mark.parametrize("number", [2, 2.5, 1j, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.complex64, torch.bool])
def test_numbers_keep_the_dtype_that_torch_gives_them(number: complex, dtype: torch.dtype) -> None:
    x = variable("x")
    value = torch.tensor([1, 0, 1]).to(dtype)
    if number == 1j and dtype is torch.bfloat16 and not multiplies_complex_bfloat16():
        with pytest.raises(NotImplementedError, match="not implemented for 'BComplex32'"):
            call(function([x], number * x), value)
        return
    for mine, torchs in ((number * x, number * value), (x + number, value + number)):
        for item in (In(x), In(x, mutable=True)):
            (result,) = call(function([item], Out(mine, borrow=True)), value.clone())
            assert result.dtype == torchs.dtype
            assert torch.equal(result, torchs)
    if dtype is not torch.bool and number is not True:
        (result,) = call(function([x], number - x), value)
        assert result.dtype == (number - value).dtype
        assert torch.equal(result, number - value)


def test_long_chains_are_no_recursion() -> None:
    x = variable("x")
    y: Expression = x
    for _ in range(3000):
        y = y + 1
    (result,) = call(function([x], y), torch.zeros(2))
    assert result.tolist() == [3000, 3000]


def test_updates_are_computed_from_the_old_values() -> None:
    a, b = shared(torch.tensor([1.0])), shared(torch.tensor([2.0]))
    swap = function([], [a + b, Out(a, borrow=True)], updates={a: b, b: a})
    total, old_a = call(swap)
    assert (total.tolist(), old_a.tolist()) == ([3], [1])
    assert (internal(a).tolist(), internal(b).tolist()) == ([2], [1])


def test_an_update_of_another_shape_gives_new_memory_and_an_own_result_is_not_copied() -> None:
    x, s = variable("x"), shared(torch.zeros(2))
    f = function([x], [], updates={s: x + 1})
    f(torch.zeros(3))
    assert internal(s).tolist() == [1, 1, 1]
    t = shared(torch.zeros(2))
    y = x + 1
    (result,) = call(function([x], y, updates={s: y, t: y}), torch.zeros(4))
    assert not overlaps(internal(s), internal(t))
    assert not overlaps(internal(s), result)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_an_update_of_another_dtype_is_refused_beforeanything_is_written(
    dtype: torch.dtype,
) -> None:
    x = variable("x")
    s, t = shared(torch.zeros(2), name="s"), shared(torch.zeros(2), name="t")
    f = function([x], [], updates={s: s + 1, t: x}, name="f")
    with pytest.raises(
        TypeError,
        match=r"f: the new value of t must have its dtype and device, torch\.float32 on cpu, got",
    ):
        f(torch.zeros(2, dtype=dtype))
    assert internal(s).tolist() == [0, 0]


def test_a_mutable_argument_that_something_else_lies_in_is_left_alone() -> None:
    x, y = variable("x"), variable("y")
    f = function([In(x, mutable=True), y], Out((x + 1) * y, borrow=True))
    memory = torch.ones(4)
    call(f, memory[:3], memory[1:])
    assert memory.tolist() == [1, 1, 1, 1]
    s = shared(torch.ones(3))
    call(f, internal(s), torch.ones(3))
    assert internal(s).tolist() == [1, 1, 1]
    expanded = torch.ones(1).expand(3)
    assert call(f, expanded, torch.ones(3))[0].tolist() == [2, 2, 2]
    assert expanded.tolist() == [1, 1, 1]


def test_a_mutable_argument_is_left_alone_while_a_view_of_it_is_needed() -> None:
    x = variable("x")
    y = apply(transpose, x)
    f = function([In(x, mutable=True)], Out((x + 1) @ y, borrow=True))
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = (a + 1) @ a.T
    assert torch.equal(call(f, a.clone())[0], expected)


def test_the_last_step_of_a_result_for_the_caller_is_computed_where_it_is_returned() -> None:
    x = variable("x")
    f = function([In(x, mutable=True)], (x + 1) * 2)
    argument = torch.zeros(2)
    operations = trace(f, argument)
    names = [operation.name.partition(":")[2] for operation in operations]
    assert {"add", "mul"} <= set(names)
    assert not {"clone", "_to_copy"} & set(names)
    assert argument.tolist() == [1, 1]


def test_a_borrowed_output_that_comes_back_as_an_argument_is_not_overwritten() -> None:
    x = variable("x")
    f = function([x], Out(x @ (x + 1), borrow=True))
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (first,) = call(f, a)
    expected = first @ (first + 1)
    (second,) = call(f, first)
    assert torch.equal(second, expected)
    assert not overlaps(first, second)
    # The first buffer belongs to the caller from now on.
    assert shared(first, borrow=True).borrowed


def test_a_borrowed_output_that_changes_its_shape_gets_a_new_buffer() -> None:
    x = variable("x")
    f = function([x], Out(x + 1, borrow=True))
    (first,) = call(f, torch.zeros(2))
    (second,) = call(f, torch.zeros(3))
    (third,) = call(f, torch.zeros(3))
    assert first.tolist() == [1, 1]
    assert second.data_ptr() == third.data_ptr()


def test_the_buffer_of_a_borrowed_output_has_an_owner() -> None:
    x = variable("x")
    f = function([x], [x - 1, Out(x + 1, borrow=True)], name="f")
    _, kept = call(f, torch.zeros(2))
    with pytest.raises(OwnershipError, match="s: memory must have one owner, got memory that belo"):
        shared(kept, borrow=True, name="s")
    with pytest.raises(OwnershipError, match="belongs to output 1 of f"):
        shared(torch.ones(1)).set_value(kept, borrow=True)


def test_a_function_of_the_users_may_write_to_its_own_memory_only() -> None:
    def own(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = 5
        torch.add(y, 1, out=y)
        return y.view(-1).mul_(2)

    def out(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, 1, out=outside)

    outside = torch.zeros(2)
    x = variable("x")
    (result,) = call(function([x], apply(own, x)), torch.zeros(2))
    assert result.tolist() == [12, 2]
    f = function([x], apply(out, x))
    with pytest.raises(
        RuntimeError,
        match=r"out: a function must write only to memory that it allocated itself, got",
    ):
        f(torch.zeros(2))
    assert outside.tolist() == [0, 0]


def test_memory_that_a_users_function_returns_from_elsewhere_is_never_workspace() -> None:
    outside = torch.ones(2)
    x = variable("x")
    y = apply(lambda x: outside, x)
    call(function([In(x, mutable=True)], Out((y + 1) * 2, borrow=True)), torch.ones(2))
    assert outside.tolist() == [1, 1]


def test_a_function_of_the_users_must_return_a_strided_tensor() -> None:
    x = variable("x")
    with pytest.raises(TypeError, match="tolist: a function must return a tensor, got list"):
        function([x], apply(torch.Tensor.tolist, x))(torch.ones(2))  # type: ignore[arg-type]  # test
    with pytest.raises(TypeError, match=r"to_sparse: a result must be strided, got layout"):
        function([x], apply(torch.Tensor.to_sparse, x))(torch.ones(2))


def test_gradients_are_not_recorded() -> None:
    x = variable("x")
    (result,) = call(function([x], x * 2), torch.nn.Parameter(torch.ones(2)))
    assert not result.requires_grad


def test_a_wrong_number_of_arguments_is_refused() -> None:
    x = variable("x")
    f = function([x], x, name="f")
    with pytest.raises(TypeError, match=r"f: there must be one argument for each of 1 input"):
        f(torch.ones(1), torch.ones(1))


def test_an_argument_that_is_no_tensor_is_refused() -> None:
    x = variable("x")
    with pytest.raises(TypeError, match="f, x: the value must be a NumPy array or a tensor"):
        function([x], x, name="f")(3.0)  # type: ignore[arg-type]  # what the test is about


def test_inputs_outputs_and_updates_of_other_kinds_are_refused() -> None:
    x = variable("x")
    with pytest.raises(TypeError, match="In: an input must be a variable, got SharedVariable"):
        function([shared(torch.ones(1))], x)  # type: ignore[list-item]  # what the test is about
    with pytest.raises(TypeError, match="Out: an output must be an expression, got 3"):
        function([x], [3])  # type: ignore[list-item]  # what the test is about
    with pytest.raises(
        TypeError, match="f: the target of an update must be a shared variable, got x"
    ):
        function([x], x, updates={x: x + 1}, name="f")  # type: ignore[dict-item]  # test's subject


def test_an_input_given_twice_is_refused() -> None:
    x = variable("x")
    with pytest.raises(ValueError, match="f: an input must be given once, got x again"):
        function([x, In(x)], x, name="f")


def test_a_variable_that_is_no_input_is_refused() -> None:
    x, y = variable("x"), variable("y")
    with pytest.raises(ValueError, match="f: every variable in outputs or updates must be"):
        function([x], x + y, name="f")


@pytest.mark.parametrize("value", [np.ones(2), torch.ones(2), "2", None])
def test_values_in_expressions_are_refused(value: object) -> None:
    x = variable("x")
    with pytest.raises(TypeError, match=r"an operand must be an expression or a number \(put a va"):
        x + value  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(TypeError, match="apply_me: an operand must be an expression or a number"):
        apply(apply_me, x, value)  # type: ignore[arg-type]  # what the test is about
    if not isinstance(value, str) and value is not None:
        with pytest.raises(TypeError, match="an operand must be an expression or a number"):
            value + x  # type: ignore[arg-type]  # what the test is about


def apply_me(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def test_functions_and_expressions_show_what_they_are() -> None:
    x, y = variable("x"), variable("y")
    f = function([In(x, borrow=True), y], Out(-x @ (1 / y), borrow=True), name="f")
    assert repr(f) == (
        "Function('f', [In(variable=x, borrow=True, mutable=False), "
        "In(variable=y, borrow=False, mutable=False)], "
        "[Out(expression=(-x) @ (1 / y), borrow=True)])"
    )
    assert repr(apply(torch.exp, x + 1, 2)) == "exp(x + 1, 2)"


def test_updates_may_be_given_as_pairs() -> None:
    x, total, count = variable("x"), shared(torch.zeros(2)), shared(torch.zeros(()))
    f = function([x], [], updates=[(total, total + x), (count, count + 1)])
    f(torch.tensor([1.0, 2.0]))
    assert internal(total).tolist() == [1, 2] and internal(count).item() == 1


def test_a_shared_variable_that_is_updated_twice_is_refused() -> None:
    s = shared(torch.zeros(2))
    with pytest.raises(ValueError, match="f: a shared variable must be updated once, got Shared"):
        function([], [], updates=[(s, s + 1), (s, s + 2)], name="f")


@pytest.mark.parametrize("pair", [3, (), (1, 2, 3)])
def test_an_update_that_is_no_pair_is_refused(pair: Any) -> None:
    with pytest.raises(TypeError, match="f: an update must be a shared variable and its new value"):
        function([], [], updates=[pair], name="f")


def test_what_is_no_sequence_is_refused() -> None:
    x, three = variable("x"), cast(Any, 3)
    with pytest.raises(TypeError, match="f: the outputs must be a sequence of expressions, got 3"):
        function([x], three, name="f")
    for inputs in (three, cast(Any, x)):
        with pytest.raises(TypeError, match="f: the inputs must be a sequence of variables, got"):
            function(inputs, x, name="f")
    with pytest.raises(TypeError, match="f: the updates must be a sequence of pairs, got 3"):
        function([x], x, updates=three, name="f")


@pytest.mark.parametrize("flag", [3, "yes", None])
def test_a_flag_that_is_no_truth_value_is_refused(flag: Any) -> None:
    x = variable("x")
    with pytest.raises(TypeError, match="Out: borrow must be True or False, got"):
        Out(x, borrow=flag)
    with pytest.raises(TypeError, match="In: mutable must be True or False, got"):
        In(x, mutable=flag)
    with pytest.raises(TypeError, match="In: borrow must be True or False, got"):
        In(x, borrow=flag)


def test_a_name_that_is_no_string_and_a_function_that_is_none_are_refused() -> None:
    with pytest.raises(TypeError, match="variable: a name must be a string, got 3"):
        variable(3)  # type: ignore[arg-type]  # the test's subject
    with pytest.raises(TypeError, match="apply: the function must be callable, got 3"):
        apply(3, variable("x"))  # type: ignore[arg-type]  # the test's subject


def test_types_of_results_follow_numbers_and_the_default_type_of_torch() -> None:
    x = variable("x")
    expressions = [x * 2, x * 2.0, x * 1, x * True, x / 2, x * 1j]
    functions = [function([In(x, mutable=True)], expression + 0) for expression in expressions]
    given = torch.tensor([1, 2])
    for default in (torch.float32, torch.float64):
        try:
            torch.set_default_dtype(default)
            made = [call(f, given.clone())[0] for f in functions * 2]
            expected = [given * 2, given * 2.0, given, given * True, given / 2, given * 1j] * 2
        finally:
            torch.set_default_dtype(torch.float32)
        assert [value.dtype for value in made] == [value.dtype for value in expected]
        assert all(map(torch.equal, made, expected))

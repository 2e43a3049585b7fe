from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from memmap.dataflow import (
    Dependency,
    Operation,
    TracedOperation,
    analyze_dependencies,
    trace,
)
from memmap.dataflow._operators import use_of

Step = Callable[[torch.Tensor, list[torch.Tensor]], object]


def summary(operations: list[Operation]) -> list[tuple[str, list[str], list[str]]]:
    return [
        (op.name, [v.name for v in op.input_views], [v.name for v in op.output_views])
        for op in operations
    ]


def edges_of(operations: list[Operation]) -> list[str]:
    return [str(edge) for edge in analyze_dependencies(operations).edges]


# What an operator reads and writes


def test_an_in_place_operator_reads_and_writes_itself() -> None:
    assert summary(trace(lambda x: x.add_(1), torch.ones(3))) == [("0:add_", ["arg0"], ["arg0"])]


def test_an_overwriting_operator_does_not_read_what_it_overwrites() -> None:
    def overwrite(x: torch.Tensor, y: torch.Tensor) -> None:
        x.copy_(y)
        x.zero_()
        x.fill_(2)
        x.normal_(generator=torch.Generator())

    operations = trace(overwrite, torch.ones(3), torch.ones(3))
    assert [[v.name for v in op.input_views] for op in operations[:3]] == [["arg1"], [], []]
    assert [v.name for v in operations[3].input_views[:-1]] == []
    assert edges_of(operations) == [
        "0:copy_ -> 1:zero_ (WAW, explicit)",
        "1:zero_ -> 2:fill_ (WAW, explicit)",
        "2:fill_ -> 3:normal_ (WAW, explicit)",
    ]


def test_an_out_argument_is_written_and_not_read() -> None:
    operations = trace(lambda x, y: torch.add(x, x, out=y), torch.ones(3), torch.ones(3))
    assert summary(operations) == [("0:add", ["arg0", "arg0"], ["arg1"])]


def test_an_out_argument_that_is_resized_is_written_as_it_is_afterwards() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty(0)
        torch.add(x, x, out=y)
        y[2:].add_(1)
        return y.sum()

    operations = trace(double, torch.ones(4))
    assert operations[0].output_views[0].memory.sizes == (4,)
    assert analyze_dependencies(operations).as_dict() == {
        "0:add": [],
        "1:add_": ["0:add"],
        "2:sum": ["0:add", "1:add_"],
    }


def test_a_view_is_no_operation_and_neither_is_an_allocation() -> None:
    def look(x: torch.Tensor) -> None:
        x.view(2, 2).t()[0].unsqueeze(0).expand(3, 2).detach()
        x.unsafe_chunk(2)
        torch.empty_like(x).resize_(100)
        x.t_()

    assert trace(look, torch.ones(4)) == []


def test_the_shape_of_a_tensor_is_not_its_data() -> None:
    operations = trace(lambda x: (torch.zeros_like(x), x.new_full((2,), 3)), torch.ones(3))
    assert summary(operations) == [
        ("0:zeros_like", [], ["0:zeros_like"]),
        ("1:new_full", [], ["1:new_full"]),
    ]


def test_every_result_of_an_operator_is_written() -> None:
    operations = trace(lambda x: x.max(0), torch.ones(3, 2))
    assert len(operations[0].output_views) == 2
    assert {v.memory.itemsize for v in operations[0].output_views} == {4, 8}


def test_foreach_operators_read_and_write_tensor_by_tensor() -> None:
    x = torch.ones(6)
    operations = trace(lambda x: torch._foreach_add_([x[:2], x[4:]], [x[2:4], x[2:4]]), x)
    assert summary(operations) == [
        (
            "0:_foreach_add_",
            ["arg0[0:8]", "arg0[16:24]", "arg0[8:16]", "arg0[8:16]"],
            ["arg0[0:8]", "arg0[16:24]"],
        )
    ]


def test_operators_that_write_in_part_read_what_they_leave() -> None:
    def write(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> None:
        x.scatter_(0, index, source)
        x[index] = source
        x.index_add_(0, index, source)
        x.masked_fill_(x > 2, 0)

    given = torch.ones(4), torch.tensor([0, 2]), torch.tensor([3.0, 4.0])
    operations = [op for op in trace(write, *given) if op.name[2:] != "gt"]
    assert [op.name[2:] for op in operations] == [
        "scatter_", "index_put_", "index_add_", "masked_fill_",
    ]  # fmt: skip
    for operation in operations[:3]:
        assert {v.name for v in operation.input_views} == {"arg0", "arg1", "arg2"}
    assert all([v.name for v in op.output_views] == ["arg0"] for op in operations)


def test_a_function_that_returns_what_it_was_given_runs_no_operation_for_that() -> None:
    assert trace(lambda x: x, torch.ones(3)) == []
    (operation,) = trace(lambda x: (x, x.t(), x.add_(1)), torch.ones(3, 3))
    assert operation.name == "0:add_"


def test_a_value_that_python_asks_for_is_read() -> None:
    def ask(x: torch.Tensor) -> None:
        x.add_(1)
        if x[0].item() > 0 and torch.equal(x, x):
            x.zero_()

    assert edges_of(trace(ask, torch.ones(2))) == [
        "0:add_ -> 1:_local_scalar_dense (RAW, implicit)",
        "0:add_ -> 2:equal (RAW, explicit)",
        "0:add_ -> 3:zero_ (WAW, explicit)",
        "1:_local_scalar_dense -> 3:zero_ (WAR, implicit)",
        "2:equal -> 3:zero_ (WAR, explicit)",
    ]


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_writes_its_statistics_in_training_although_its_schema_denies_it(
    training: bool,
) -> None:
    norm = torch.nn.BatchNorm1d(2).train(training)
    operations = trace(norm, torch.randn(3, 2))
    (operation,) = (op for op in operations if "batch_norm" in op.name)
    assert {"running_mean", "running_var"} <= {v.name for v in operation.input_views}
    written = {v.name for v in operation.output_views if v.name.startswith("running")}
    assert written == ({"running_mean", "running_var"} if training else set())


def test_a_collective_is_refused_because_it_does_not_say_what_it_writes() -> None:
    pytest.importorskip("torch.distributed")
    if not torch.distributed.is_available():
        pytest.skip("torch was built without collectives")
    wait = torch.ops._c10d_functional.wait_tensor.default
    with pytest.raises(NotImplementedError, match="an operator must declare what it writes"):
        trace(lambda x: wait(x), torch.ones(2))
    with pytest.raises(NotImplementedError, match="got the collective _c10d"):
        use_of(wait)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_tensor_that_is_not_strided_is_refused() -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(NotImplementedError, match=r"the tensors of 0:mm must be strided: .*sparse"):
        trace(lambda x, y: x @ y, sparse, torch.ones(3, 3))


def test_the_tensors_in_a_wrapper_are_traced() -> None:
    two = TwoTensor(torch.ones(2), torch.ones(2))
    operations = trace(lambda x: x.add_(1), two)
    assert [op.name for op in operations] == ["0:add_", "1:add_"]
    assert analyze_dependencies(operations).edges == ()


def test_modules_backward_passes_and_optimizers_are_traced() -> None:
    # What the backward pass of the sigmoid needs makes the checkpoint compute the whole again.
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(model: torch.nn.Module, x: torch.Tensor) -> None:
        checkpoint(model, x, use_reentrant=False).sum().backward()
        optimizer.step()

    operations = trace(step, model, torch.ones(4, 3))
    names = [op.name.partition(":")[2] for op in operations]
    assert names.count("addmm") == 2
    assert names[-2:] == ["add_", "add_"]
    updates = {op.output_views[0].name: op for op in operations[-2:]}
    assert set(updates) == {"arg0.0.weight", "arg0.0.bias"}
    waits = [e for e in analyze_dependencies(operations).edges if e.later in updates.values()]
    assert {(e.earlier.name.partition(":")[2], str(e.kind)) for e in waits} == {
        ("addmm", "WAR"),
        ("mm", "RAW"),
        ("sum", "RAW"),
    }


def test_a_compiled_function_is_traced_operator_by_operator() -> None:
    compiled = torch.compile(lambda x: x.sin().add_(1), backend="eager")
    compiled(torch.ones(3))
    assert [op.name for op in trace(compiled, torch.ones(3))] == ["0:sin", "1:add_"]


# Which memory is which


def test_memory_that_is_freed_and_used_again_is_other_memory() -> None:
    def churn() -> None:
        for _ in range(100):
            x = torch.ones(1000)
            addresses.add(x.data_ptr())
            x.add_(1)
            del x

    addresses: set[int] = set()
    operations = trace(churn)
    assert len(addresses) < 100, "the allocator gave no address twice: the test shows nothing"
    assert [len(wave) for wave in analyze_dependencies(operations).waves()] == [100, 100]


def test_memory_of_others_that_comes_back_in_another_storage_is_the_same_memory() -> None:
    array = np.zeros(4)

    def touch() -> None:
        torch.from_numpy(array).add_(1)
        torch.from_numpy(array).mul_(2)
        torch.frombuffer(array.data, dtype=torch.float64).neg_()

    assert analyze_dependencies(trace(touch)).as_dict() == {
        "0:add_": [],
        "1:mul_": ["0:add_"],
        "2:neg_": ["1:mul_"],
    }


def test_a_trace_keeps_no_memory_of_torch_alive() -> None:
    def make() -> None:
        x = torch.ones(1000)
        storages.append(StorageWeakRef(x.untyped_storage()))
        x.add_(1)

    storages: list[StorageWeakRef] = []
    operations = trace(make)
    assert len(operations) == 2
    assert [storage.expired() for storage in storages] == [True]
    replayable = trace(make, replayable=True)
    assert len(replayable) == 2
    assert not storages[1].expired()


def test_storages_that_alias_are_one_memory_also_if_that_is_seen_late() -> None:
    array = np.zeros(8, np.float32)

    def touch() -> None:
        left, right = torch.from_numpy(array[:4]), torch.from_numpy(array[4:])
        left.add_(1)
        right.add_(1)
        torch.from_numpy(array).mul_(2)  # only now do the two turn out to be neighbours
        torch.from_numpy(array[2:6]).zero_()

    assert analyze_dependencies(trace(touch)).as_dict() == {
        "0:add_": [],
        "1:add_": [],
        "2:mul_": ["0:add_", "1:add_"],
        "3:zero_": ["2:mul_"],
    }


def test_a_storage_that_moves_when_it_grows_stays_the_same_memory() -> None:
    def grow(x: torch.Tensor) -> None:
        part = x[:2]
        part.add_(1)
        x.untyped_storage().resize_(1 << 22)
        part.mul_(2)

    assert edges_of(trace(grow, torch.ones(4))) == [
        "0:add_ -> 1:mul_ (RAW, implicit)",
        "0:add_ -> 1:mul_ (WAW, implicit)",
    ]


def test_conj_views_and_other_dtypes_of_the_same_bytes_are_the_same_memory() -> None:
    def parts(x: torch.Tensor) -> None:
        torch.view_as_real(x)[..., 1].zero_()
        x.conj().mul_(2)
        x.real.view(torch.int32).add_(1)

    operations = trace(parts, torch.ones(3, dtype=torch.complex64))
    assert analyze_dependencies(operations).as_dict() == {
        "0:zero_": [],
        "1:clone": ["0:zero_"],  # torch resolves a conj view before it writes to it
        "2:mul_": ["1:clone"],
        "3:copy_": ["0:zero_", "1:clone", "2:mul_"],
        "4:add_": ["3:copy_"],
    }


def test_fake_and_meta_tensors_are_traced_without_memory() -> None:
    with FakeTensorMode():
        fake = torch.ones(4, 4)
    for tensor in (fake, torch.ones(4, 4, device="meta")):
        operations = trace(lambda x: x[:2].copy_(x[2:]).add_(torch.rand_like(x[:2])), tensor)
        assert analyze_dependencies(operations).as_dict() == {
            "0:copy_": [],
            "1:rand_like": [],
            "2:add_": ["0:copy_", "1:rand_like"],
        }


def test_equal_views_are_one_view_and_others_are_named_by_their_bytes() -> None:
    def step(x: dict[str, list[torch.Tensor]]) -> None:
        tensor = x["a"][0]
        tensor[1:].add_(1)
        tensor[1:].mul_(torch.ones(2))

    add, _, mul = trace(step, {"a": [torch.ones(3)]})
    assert add.output_views[0] is mul.input_views[0]
    assert repr(add.output_views[0]) == "TracedView(\"arg0['a'][0][4:12]\")"
    assert mul.input_views[1].name == "1:ones"


def test_memory_from_elsewhere_is_named_after_its_first_use() -> None:
    closure = torch.ones(3)
    (operation,) = trace(lambda x: x.add_(closure), torch.ones(3))
    assert [v.name for v in operation.input_views] == ["arg0", "0:add_.other"]


def test_an_operation_knows_who_called_it() -> None:
    (operation,) = trace(lambda x: torch.nn.functional.relu(x), torch.ones(3))
    assert isinstance(operation, TracedOperation)
    assert operation.function is torch.ops.aten.relu.default
    file, _, line = operation.location.rpartition(":")
    assert file == __file__
    assert int(line) > 0


# Random numbers


def test_random_operators_wait_for_one_another() -> None:
    operations = trace(lambda: (torch.rand(2), torch.ones(2), torch.randn(2)))
    assert edges_of(operations) == [
        "0:rand -> 2:randn (RAW, explicit)",
        "0:rand -> 2:randn (WAW, explicit)",
    ]


def test_generators_are_separate_and_an_unused_one_makes_no_hazard() -> None:
    def draw(x: torch.Tensor) -> None:
        torch.rand(2)
        torch.rand(2, generator=generator)
        torch.native_dropout(x, 0.0, False)
        torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.0)
        torch.rand(2, device="meta")

    generator = torch.Generator()
    assert edges_of(trace(draw, torch.ones(1, 1, 2, 2))) == []


# Hazards inside one operation


def self_hazards(operations: list[Operation]) -> list[str]:
    return [str(hazard) for hazard in analyze_dependencies(operations).self_hazards]


def test_a_shifted_copy_is_reported_that_torch_lets_pass() -> None:
    x = torch.arange(8.0)
    operations = trace(lambda x: x[2::2].copy_(x[:-2:2]), x)
    assert x.tolist() != [0, 1, 0, 3, 2, 5, 4, 7], "torch now gets it right: report less"
    assert self_hazards(operations) == [
        "0:copy_: writes arg0[8:28], which overlaps arg0[0:20] that it reads"
    ]


def test_a_shifted_copy_is_reported_where_torch_does_not_look() -> None:
    x = torch.ones(8, device="meta")
    assert self_hazards(trace(lambda a: a[1:].copy_(a[:-1]), x)) == [
        "0:copy_: writes arg0[4:32], which overlaps arg0[0:28] that it reads"
    ]


def test_an_error_of_the_function_is_passed_on() -> None:
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        trace(lambda a: a[1:].copy_(a[:-1]), torch.ones(8))


@pytest.mark.parametrize(
    "safe",
    [
        lambda x: x.add_(x),
        lambda x: torch.add(x, 1, out=x),
        lambda x: x.cumsum_(0),
        lambda x: x.copy_(x),
        lambda x: x[::2].copy_(x[1::2]),
        lambda x: torch._foreach_mul_([x[:2], x[2:]], [x[:2], x[2:]]),
        lambda x: x.as_strided((3, 3), (1, 1)).fill_(2),
        lambda x: torch._foreach_zero_([x, x]),
    ],
)
def test_what_is_meant_is_not_reported(safe: Callable[[torch.Tensor], object]) -> None:
    assert self_hazards(trace(safe, torch.ones(8))) == []


@pytest.mark.parametrize(
    ("unsafe", "expected"),
    [
        (
            lambda x: torch.mm(x, x, out=x),
            ["writes arg0, which overlaps arg0 that it reads"] * 2,
        ),
        (
            lambda x: x[:3, :3].copy_(x[:3, :3].t()),
            ["writes arg0[0:44], which overlaps arg0[0:44] that it reads"],
        ),
        (
            lambda x: torch.max(x, 0, out=(x.view(-1)[:4], x.view(torch.int64).view(-1)[:4])),
            [
                "writes arg0[0:16], which overlaps arg0 that it reads",
                "writes arg0[0:32], which overlaps arg0 that it reads",
                "writes arg0[0:32], which overlaps arg0[0:16] that it also writes",
            ],
        ),
        (
            lambda x: torch._foreach_mul_([x[0], x[1]], x[0, 0]),
            ["writes arg0[0:16], which overlaps arg0[0:4] that it reads"],
        ),
        (
            lambda x: torch._foreach_add_([x[0], x[1]], [x[1], x[0]]),
            [
                "writes arg0[0:16], which overlaps arg0[0:16] that it reads",
                "writes arg0[16:32], which overlaps arg0[16:32] that it reads",
            ],
        ),
        (
            lambda x: x.as_strided((3, 3), (2, 1)).mul_(2),
            ["writes arg0[0:28], which overlaps itself"],
        ),
    ],
)
def test_what_depends_on_the_order_of_the_elements_is_reported(
    unsafe: Callable[[torch.Tensor], object], expected: list[str]
) -> None:
    operations = trace(unsafe, torch.ones(4, 4, device="meta"))
    (operation,) = operations
    assert sorted(self_hazards(operations)) == sorted(f"{operation.name}: {e}" for e in expected)


# Replaying


@st.composite
def slices(draw: st.DrawFn, size: int = 8) -> Callable[[torch.Tensor], torch.Tensor]:
    step = draw(st.integers(1, 3))
    start = draw(st.integers(0, size - 1 - step))
    return lambda x: x[start::step][:2]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One line of a program on a buffer and on the tensors made so far."""
    a, b = draw(slices()), draw(slices())
    i = draw(st.integers(0, 3))

    def temporary(x: torch.Tensor, made: list[torch.Tensor]) -> torch.Tensor:
        return made[i % len(made)] if made else x

    def swap(x: torch.Tensor, made: list[torch.Tensor]) -> object:
        return torch._foreach_add_([x[:2], x[4:6]], [x[4:6].clone(), x[:2].clone()])

    def grow(x: torch.Tensor, made: list[torch.Tensor]) -> None:
        out = torch.empty(0)
        made.append(torch.mul(a(x), 3, out=out))

    def draw_numbers(x: torch.Tensor, made: list[torch.Tensor]) -> None:
        made.append(torch.rand(2, dtype=x.dtype))

    def add(x: torch.Tensor, made: list[torch.Tensor]) -> None:
        made.append(a(x) + b(x)[:1])

    choices: list[Step] = [
        lambda x, made: a(x).mul_(3),
        lambda x, made: a(x).copy_(b(x).clone().add_(1)),
        lambda x, made: a(x).fill_(b(x).sum() * 0.5),
        add,
        lambda x, made: temporary(x, made).neg_(),
        lambda x, made: a(x).add_(temporary(x, made).sum()),
        lambda x, made: torch.add(a(x), 1, out=a(x)),
        swap,
        grow,
        draw_numbers,
    ]
    return draw(st.sampled_from(choices))


@given(st.lists(steps(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_operations_of_a_wave_may_be_replayed_in_any_order(
    program: list[Step], random: Random
) -> None:
    x = torch.arange(1.0, 9.0, dtype=torch.float64)
    made: list[torch.Tensor] = []

    def run(x: torch.Tensor) -> None:
        for step in program:
            step(x, made)

    torch.manual_seed(0)
    operations = trace(run, x, replayable=True)
    tensors = [x, *made]
    expected = [tensor.clone() for tensor in tensors]
    for tensor in made:
        tensor.fill_(-1)
    x.copy_(torch.arange(1.0, 9.0))
    torch.manual_seed(0)
    for wave in analyze_dependencies(operations).waves():
        random.shuffle(wave)
        for operation in wave:
            operation.execute()
    for tensor, value in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor, value, rtol=0, atol=0)


MODELS: list[tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = [
    (lambda: torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Dropout()), (3, 4)),
    (lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)), (2, 1, 5, 5)),
    (lambda: torch.nn.LSTM(3, 4, 2), (5, 2, 3)),
    (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16), (4, 2, 8)),
]


@pytest.mark.parametrize(("make", "shape"), MODELS)
@pytest.mark.parametrize("foreach", [False, True])
def test_a_training_step_may_be_replayed_in_any_order_within_a_wave(
    make: Callable[[], torch.nn.Module], shape: tuple[int, ...], foreach: bool
) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)

    def step() -> None:
        optimizer.zero_grad()
        y = model(x)
        (y[0] if isinstance(y, tuple) else y).square().mean().backward()
        optimizer.step()

    step()  # which makes the optimizer's state
    state = [*model.parameters(), *model.buffers()]
    state += [value for values in optimizer.state.values() for value in values.values()]
    before = [tensor.detach().clone() for tensor in state]
    torch.manual_seed(1)
    operations = trace(step, replayable=True)
    expected = [tensor.detach().clone() for tensor in state]
    waves = analyze_dependencies(operations).waves()
    for seed in range(3):
        random = Random(seed)
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)
        torch.manual_seed(1)
        for wave in waves:
            random.shuffle(wave)
            for operation in wave:
                operation.execute()
        for tensor, value in zip(state, expected, strict=True):
            torch.testing.assert_close(tensor.detach(), value, rtol=0, atol=0)


def test_a_replay_uses_the_sizes_and_strides_of_the_time_of_the_trace() -> None:
    def transpose(x: torch.Tensor, y: torch.Tensor) -> None:
        x.copy_(y)
        x.t_()

    x, y = torch.zeros(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (operation,) = trace(transpose, x, y, replayable=True)
    x.zero_()
    operation.execute()
    assert x.tolist() == [[1, 3], [2, 4]]


def test_a_replay_that_leads_to_another_shape_is_refused() -> None:
    x = torch.ones(3)
    (operation,) = trace(torch.nonzero, x, replayable=True)
    operation.execute()
    x[0] = 0
    with pytest.raises(RuntimeError, match=r"result must have the shape \(3, 1\), got \(2, 1\)"):
        operation.execute()


def test_an_operation_of_an_ordinary_trace_cannot_be_executed() -> None:
    (operation,) = trace(torch.neg, torch.ones(3))
    with pytest.raises(RuntimeError, match="0:neg: an operation must be traced with replayable=T"):
        operation.execute()


def test_hazards_name_the_views_through_which_they_go() -> None:
    (edge, _) = analyze_dependencies(
        trace(lambda x: (x[:2].add_(1), x.mul_(2)), torch.ones(3))
    ).edges
    assert isinstance(edge, Dependency)
    assert [(a.name, b.name) for a, b in edge.views] == [("arg0[0:8]", "arg0")]

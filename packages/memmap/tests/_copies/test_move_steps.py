"""Moves in steps: what is given up on the way, and what a failure leaves behind."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from memmap import AliasWarning, ModuleMemoryMap, MoveError, memory_aware_to, overlaps
from memmap._copies._allocate import empty_bytes
from memmap._copies._move_steps import _MoveBack, move_steps
from memmap._copies._plan import CopyPlan, copy_plan
from memmap._modules._named import contents_of
from memmap.testing import Holder, content_of, modules, sharing_of, state_of

SOURCES = [
    "memmap._copies._buffers.empty_bytes",
]
BETA = pytest.mark.filterwarnings("ignore:.*(prototype|beta).*:UserWarning")


def three_groups() -> Holder:
    """A parameter, a parameter and its gradient, and a storage that is viewed twice."""
    flat = torch.arange(20.0)
    module = Holder(a=torch.nn.Parameter(torch.arange(10.0)), b=flat[:12], c=flat[8:])
    module.d = torch.nn.Parameter(torch.ones(5))
    module.d.grad = torch.arange(5.0)
    return module


def properties_of(module: torch.nn.Module) -> list[object]:
    """All that a failure must put back: everything but which storages there are."""
    state = state_of(module)
    tensors = [tensor for _, tensor in state]
    return [
        sharing_of(tensors),
        [
            (path, id(t), type(t), t.device, t.dtype, t.shape, t.stride(), t.requires_grad,
             t.is_conj(), t.is_neg(), content_of(t), t.is_leaf and t.grad is not None)
            for path, t in state
        ],
    ]  # fmt: skip


class Allocations:
    """Counts allocations and lets one of them fail; notes which storages are alive at each."""

    def __init__(self, watched: list[torch.UntypedStorage] | None = None) -> None:
        self.n = 0
        self.fails_at: int | None = None
        self.n_fails = 1
        self.alive: list[list[bool]] = []
        self._watched = [StorageWeakRef(s) for s in watched or []]

    def __call__(self, nbytes: int, device: torch.device) -> torch.Tensor:
        alive = [not ref.expired() for ref in self._watched]
        self.alive.append(alive)
        self.n += 1
        if self.fails_at is not None and self.fails_at < self.n <= self.fails_at + self.n_fails:
            raise torch.OutOfMemoryError("no memory left")
        return empty_bytes(nbytes, device)


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> Allocations:
    counted = Allocations()
    for name in SOURCES:
        monkeypatch.setattr(name, counted)
    return counted


@pytest.fixture
def everything_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves from this device to this device, which move bytes and need no other one."""
    monkeypatch.setattr("memmap._copies._move._is_to_move", lambda group, target: True)


def to_double(module: torch.nn.Module, low_memory: bool = True) -> None:
    memory_aware_to(module, dtype=torch.float64, low_memory=low_memory)


def to_here(module: torch.nn.Module, low_memory: bool = True) -> None:
    memory_aware_to(module, "cpu", low_memory=low_memory)


def to_here_with_a_map(module: torch.nn.Module, low_memory: bool = True) -> None:
    ModuleMemoryMap(module).memory_aware_to(module, "cpu", low_memory=low_memory, pack="close")


WAYS = pytest.mark.parametrize("move", [to_double, to_here, to_here_with_a_map])


def storages_of(module: torch.nn.Module) -> list[torch.UntypedStorage]:
    result = {t.untyped_storage()._cdata: t.untyped_storage() for _, t in state_of(module)}
    return list(result.values())


def watch(allocations: Allocations, module: torch.nn.Module) -> None:
    allocations.__init__(storages_of(module))  # type: ignore[misc]  # to begin anew


@WAYS
@pytest.mark.usefixtures("everything_moves")
def test_each_source_is_given_up_before_the_next_group_is_filled(
    move: Callable[..., None], allocations: Allocations
) -> None:
    module = three_groups()
    watch(allocations, module)
    move(module)
    assert allocations.alive == [
        [True, True, True, True],
        [False, True, True, True],
        [False, True, True, True],
        [False, False, False, True],
    ], "a parameter and its gradient go together"


@WAYS
@pytest.mark.usefixtures("everything_moves")
def test_without_low_memory_everything_is_filled_before_anything_is_given_up(
    move: Callable[..., None], allocations: Allocations
) -> None:
    module = three_groups()
    watch(allocations, module)
    move(module, low_memory=False)
    assert allocations.alive == [[True] * 4] * 4


@WAYS
@pytest.mark.usefixtures("everything_moves")
@pytest.mark.parametrize("fails_at", range(4))
def test_a_failure_at_any_group_puts_everything_back(
    move: Callable[..., None], fails_at: int, allocations: Allocations
) -> None:
    module = three_groups()
    before = properties_of(module)
    gradient = module.d.grad
    allocations.fails_at = fails_at
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        move(module)
    assert properties_of(module) == before
    assert module.d.grad is gradient
    allocations.fails_at = None
    move(module)
    assert overlaps(module.b, module.c) and module.c.tolist() == list(range(8, 20))


@WAYS
@pytest.mark.usefixtures("everything_moves")
@pytest.mark.parametrize("good", range(4))
def test_a_failure_of_any_commit_puts_everything_back(
    move: Callable[..., None], good: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = three_groups()
    before = properties_of(module)
    from memmap._modules._commit import Changes

    point, calls = Changes.point, []

    def point_or_fail(self: Changes, tensor: torch.Tensor, new: torch.Tensor) -> None:
        calls.append(1)
        if len(calls) == good + 1:
            raise RuntimeError("planted")
        point(self, tensor, new)

    monkeypatch.setattr(Changes, "point", point_or_fail)
    try:
        move(module)
        assert len(calls) <= good
    except RuntimeError as error:
        assert str(error) == "planted"
        assert properties_of(module) == before


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@pytest.mark.parametrize("cast", [False, True])
@given(module=modules(dtypes=[torch.float32, torch.complex64]), data=st.data(), pack=st.booleans())
def test_random_modules_are_moved_or_put_back(
    cast: bool, module: torch.nn.Module, data: st.DataObject, pack: bool
) -> None:
    before = properties_of(module)
    values = [read(tensor) for _, tensor in state_of(module)]
    counted = Allocations()

    def move(low_memory: bool) -> None:
        dtype = torch.float64 if cast else None
        memory_aware_to(module, "cpu", dtype, pack=pack, low_memory=low_memory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memmap._copies._move._is_to_move", lambda group, target: True)
        for name in SOURCES:
            patch.setattr(name, counted)
        counted.fails_at = data.draw(st.integers(0, 4))
        try:
            move(True)
        except torch.OutOfMemoryError:
            assert properties_of(module) == before
            counted.fails_at = None
            move(True)
    tensors = [tensor for _, tensor in state_of(module)]
    scale = 2 if cast else 1
    sharing: Any = before[0]
    assert sharing_of(tensors) == (doubled(sharing) if cast else sharing)
    assert len(tensors) == len(sharing)
    assert all(t.itemsize == scale * (8 if t.is_complex() else 4) for t in tensors)
    assert [read(tensor) for tensor in tensors] == values


def read(tensor: torch.Tensor) -> list[Any]:
    numbers: list[Any] = tensor.detach().resolve_conj().resolve_neg().flatten().tolist()
    return numbers


def doubled(sharing: list[list[int]]) -> list[list[int]]:
    """What `sharing_of` gives if every byte has become two."""
    numbers: dict[tuple[int, int], int] = {}
    return [
        [numbers.setdefault((byte, part), len(numbers)) for byte in listed for part in range(2)]
        for listed in sharing
    ]


def test_a_cast_that_rounds_keeps_its_source_until_nothing_can_fail(
    allocations: Allocations,
) -> None:
    module = Holder(a=torch.full((3,), 0.1), b=torch.ones(2), c=torch.ones(3))
    before = properties_of(module)
    watch(allocations, module)
    allocations.fails_at = 2
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_aware_to(module, dtype=torch.bfloat16, low_memory=True)
    assert properties_of(module) == before
    assert allocations.alive == [[True] * 3] * 3
    allocations.fails_at = None
    memory_aware_to(module, dtype=torch.bfloat16, low_memory=True)
    assert module.a.dtype == torch.bfloat16


def test_a_move_to_meta_keeps_its_source_until_nothing_can_fail(allocations: Allocations) -> None:
    module = three_groups()
    before = properties_of(module)
    allocations.fails_at = 3
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_aware_to(module, "meta", low_memory=True)
    assert properties_of(module) == before
    memory_aware_to(module, "meta", low_memory=True)
    assert all(t.is_meta for _, t in state_of(module))


def test_what_is_held_outside_is_still_shared_after_a_failure(allocations: Allocations) -> None:
    flat = torch.arange(6.0)
    module = Holder(a=flat[:4], b=torch.ones(2), c=torch.ones(3))
    allocations.fails_at = 2
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        to_double(module)
    assert overlaps(module.a, flat) and module.a.dtype == torch.float32


def test_attributes_that_do_not_move_are_still_shared_after_a_failure(
    allocations: Allocations,
) -> None:
    flat = torch.arange(6.0)
    module = Holder(a=flat[:4].data, b=torch.ones(2), c=torch.ones(3))
    module.plain = [flat[2:].data]
    del flat
    allocations.fails_at = 2
    with (
        pytest.warns(AliasWarning, match=r"a \(by 1\)"),
        pytest.raises(torch.OutOfMemoryError, match="no memory left"),
    ):
        to_double(module)
    assert overlaps(module.a, module.plain[0])


def test_what_cannot_be_brought_back_is_whole_and_named(allocations: Allocations) -> None:
    module = Holder(a=torch.arange(3.0), b=torch.arange(4.0), c=torch.arange(5.0))
    allocations.fails_at, allocations.n_fails = 2, 2
    with pytest.raises(
        MoveError, match=r"^b: tensors that moved before a failure .* undamaged"
    ) as raised:
        to_double(module)
    assert isinstance(raised.value.__cause__, torch.OutOfMemoryError)
    assert [module.a.dtype, module.b.dtype, module.c.dtype] == [
        torch.float32, torch.float64, torch.float32,
    ]  # fmt: skip
    assert (module.a.tolist(), module.b.tolist()) == ([0, 1, 2], [0, 1, 2, 3])
    allocations.fails_at = None
    to_double(module)
    assert module.c.dtype == torch.float64


@pytest.mark.parametrize("n_interrupts", [1, 2, 3, 4])
def test_interrupts_while_things_are_brought_back_leave_nothing_behind(
    n_interrupts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Holder(a=torch.arange(3.0), b=torch.arange(4.0), c=torch.arange(5.0))
    before = properties_of(module)
    n = 0

    def interrupted(nbytes: int, device: torch.device) -> torch.Tensor:
        nonlocal n
        n += 1
        if 3 <= n < 3 + n_interrupts:
            raise KeyboardInterrupt
        return empty_bytes(nbytes, device)

    for name in SOURCES:
        monkeypatch.setattr(name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        to_double(module)
    assert properties_of(module) == before


def test_what_was_brought_back_is_not_brought_back_twice(
    allocations: Allocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Holder(a=torch.arange(3.0), b=torch.arange(4.0), c=torch.arange(5.0))
    before = properties_of(module)
    allocations.fails_at = 2
    bring_back, n_calls = _MoveBack.__call__, 0

    def interrupted(self: _MoveBack) -> None:
        nonlocal n_calls
        n_calls += 1
        bring_back(self)
        if n_calls == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(_MoveBack, "__call__", interrupted)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        to_double(module)
    assert properties_of(module) == before
    assert (n_calls, allocations.n) == (3, 5), "two were moved, one failed, two came back"


@pytest.mark.parametrize("fails_at", range(5))
def test_a_gradient_that_is_exchanged_as_a_whole_is_put_back(
    fails_at: int, allocations: Allocations
) -> None:
    whole = torch.arange(5.0)
    module = Holder(first=torch.ones(2), gradient=whole[:3], p=torch.nn.Parameter(torch.ones(3)))
    module.p.grad = gradient = module.gradient
    module.last = torch.nn.Buffer(torch.ones(4))
    del whole
    before = properties_of(module)
    watch(allocations, module)
    allocations.fails_at = fails_at
    if fails_at < 4:
        with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
            to_double(module)
        assert properties_of(module) == before
    else:
        to_double(module)
        assert gradient.dtype == torch.float64
        assert not all(allocations.alive[-1]), "and its memory was given up"
    assert module.p.grad is gradient and module.gradient is gradient


@BETA
def test_parts_of_a_sparse_tensor_change_together(allocations: Allocations) -> None:
    module = Holder(s=torch.eye(4).to_sparse(), t=torch.ones(3), c=torch.eye(3).to_sparse_csr())
    module.u = torch.nn.Buffer(torch.ones(3))
    expected = [module.s.to_dense(), module.c.to_dense()]
    for fails_at in range(4):
        allocations.n, allocations.fails_at = 0, fails_at
        with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
            to_double(module)
        allocations.fails_at = None
        assert module.s.dtype == module.c.dtype == module.t.dtype == torch.float32
        assert torch.equal(module.s.to_dense(), expected[0])
        assert torch.equal(module.c.to_dense(), expected[1])
    to_double(module)
    assert torch.equal(module.s.to_dense(), expected[0].double())


@pytest.mark.usefixtures("everything_moves")
@pytest.mark.parametrize("move", [to_here, to_here_with_a_map])
def test_the_source_of_a_sparse_tensor_is_given_up(
    move: Callable[..., None], allocations: Allocations
) -> None:
    module = Holder(s=torch.eye(4).to_sparse(), t=torch.ones(3))
    values = module.s._values()
    watched = [values.untyped_storage()]
    del values
    allocations.__init__(watched)  # type: ignore[misc]
    del watched
    move(module)
    assert [alive for (alive,) in allocations.alive] == [True, True, False]


def test_rnn_weights_are_the_parameters_after_a_failure(allocations: Allocations) -> None:
    lstm = torch.nn.LSTM(3, 4, 2)
    x = torch.randn(5, 1, 3)
    expected = lstm(x)[0]
    allocations.fails_at = 5
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        to_double(lstm)
    assert all(a is b for a, b in zip(lstm._flat_weights, lstm.parameters(), strict=True))
    assert torch.equal(lstm(x)[0], expected)


def test_waiting_for_nothing_and_giving_up_memory_exclude_each_other() -> None:
    module = three_groups()
    before = properties_of(module)
    with pytest.raises(ValueError, match="low_memory must not be combined with non_blocking"):
        memory_aware_to(module, "meta", low_memory=True, non_blocking=True)
    with pytest.raises(ValueError, match="low_memory must not be combined with non_blocking"):
        ModuleMemoryMap().memory_aware_to(module, "meta", low_memory=True, non_blocking=True)
    assert properties_of(module) == before


@pytest.mark.usefixtures("everything_moves")
def test_a_module_stays_related_to_one_that_was_moved_before(allocations: Allocations) -> None:
    flat = torch.arange(20.0)
    first = Holder(a=flat[:12].data)
    second = Holder(b=flat[8:].data, c=torch.ones(3), d=torch.ones(4))
    del flat
    memory_map = ModuleMemoryMap(first)
    memory_map.register_module(second)
    memory_map.memory_aware_to(first, "cpu")
    allocations.n, allocations.fails_at = 0, 1
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_map.memory_aware_to(second, "cpu", low_memory=True)
    assert not overlaps(first.a, second.b), "still where it was"
    allocations.fails_at = None
    memory_map.memory_aware_to(second, "cpu", low_memory=True)
    assert overlaps(first.a, second.b)


@pytest.mark.usefixtures("everything_moves")
def test_a_map_keeps_the_memory_that_another_module_still_has(allocations: Allocations) -> None:
    flat = torch.arange(20.0)
    first = Holder(a=flat[:12].data, c=torch.ones(3), d=torch.ones(4))
    second = Holder(b=flat[8:].data)
    del flat
    memory_map = ModuleMemoryMap(first)
    memory_map.register_module(second)
    allocations.fails_at = 2
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_map.memory_aware_to(first, "cpu", low_memory=True)
    assert overlaps(first.a, second.b)
    allocations.fails_at = None
    for module in (first, second):
        memory_map.memory_aware_to(module, "cpu", low_memory=True)
    assert overlaps(first.a, second.b)


@pytest.mark.usefixtures("everything_moves")
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_map_gives_back_what_it_placed_before_a_failure(
    low_memory: bool, allocations: Allocations
) -> None:
    module = three_groups()
    memory_map = ModuleMemoryMap(module)
    allocations.fails_at = 3
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_map.memory_aware_to(module, "cpu", low_memory=low_memory)
    gc.collect()
    allocations.n, allocations.fails_at = 0, None
    memory_map.memory_aware_to(module, "cpu", low_memory=low_memory)
    assert allocations.n == 4, "nothing was left on the device"


def steps(module: torch.nn.Module, all_at_once: bool = False) -> list[CopyPlan]:
    plan = copy_plan(contents_of(module)[0])
    return move_steps(plan, plan.groups, all_at_once)


def test_steps_are_groups_with_what_belongs_to_them() -> None:
    module = three_groups()
    results = [[id(item.tensor) for item in step.tensors] for step in steps(module)]
    expected = [[module.a], [module.d, module.d.grad], [module.b, module.c]]
    assert results == [[id(tensor) for tensor in tensors] for tensors in expected]


def test_a_move_all_at_once_is_one_step() -> None:
    module = three_groups()
    (whole,) = steps(module, all_at_once=True)
    assert len(whole.groups) == sum(len(step.groups) for step in steps(module)) == 4
    assert len(whole.tensors) == 5
    assert steps(torch.nn.Module(), all_at_once=True) == []

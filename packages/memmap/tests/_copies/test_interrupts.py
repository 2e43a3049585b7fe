"""Interrupts at every line: a module is as before or as after, and never in between.

A trace function raises at the k-th line that is executed in the sources of the package: when a line
of the modules that publish changes is executed for the last time, halfway through the runs of each
line that makes calls at once, and at some of the others. With the profile "thorough", at every k.
"""

import _thread
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch.multiprocessing.reductions import StorageWeakRef

import memmap
from memmap import ModuleMemoryMap, memory_aware_deepcopy, memory_aware_to
from memmap._copies._allocate import empty_bytes
from memmap._modules import _at_once
from memmap.borrow import OwnershipError, function, shared, variable
from memmap.testing import Holder, content_of, sharing_of, tensors_of

IS_THOROUGH = settings.get_current_profile_name() == "thorough"
SOURCES = os.path.dirname(memmap.__file__)
PUBLISHING = {
    "_at_once.py", "_commit.py", "_counters.py", "_move_steps.py",
    "_move.py", "_module_map.py", "_placement.py", "_deepcopy.py",
    "_memory.py", "_shared.py", "_function.py",
}  # fmt: skip
ALLOCATING = [
    "memmap._copies._buffers.empty_bytes",
]

pytestmark = pytest.mark.filterwarnings(
    "ignore::memmap.AliasWarning", "ignore:.*(prototype|beta).*:UserWarning"
)


class Trace:
    """Notes each line that is executed in the package, or raises an error at one of them."""

    def __init__(self, at: int | None = None, error: type[BaseException] = RuntimeError) -> None:
        self.lines: list[tuple[str, int]] = []
        self.has_raised = False
        self._at = at
        self._error = error

    def __enter__(self) -> "Trace":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def arm(self) -> None:
        """Count from here, where tracing has not begun yet, and in all callers."""
        sys.settrace(self._trace)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(SOURCES):
                frame.f_trace = self._trace
            frame = frame.f_back

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        if event == "line":
            if len(self.lines) == self._at:
                sys.settrace(None)
                self.has_raised = True
                raise self._error
            self.lines.append((os.path.basename(frame.f_code.co_filename), frame.f_lineno))
        return self._trace


def places(lines: list[tuple[str, int]], every: int, case: int | None = None) -> list[int]:
    """Which of the lines that are executed to interrupt; in one of many cases, half of them."""
    if IS_THOROUGH:
        return list(range(len(lines)))
    runs: dict[tuple[str, int], list[int]] = {}
    for at, line in enumerate(lines):
        runs.setdefault(line, []).append(at)
    last = sorted(at[-1] for at in runs.values())
    publishing = [at for at in last if lines[at][0] in PUBLISHING]
    if case is not None:
        publishing = publishing[case % 2 :: 2]
    halfway = {at[len(at) // 2] for (file, _), at in runs.items() if file == "_at_once.py"}
    return sorted({*publishing, *halfway, *last[::every]})


def tied() -> Holder:
    flat = torch.arange(20.0)
    module = Holder(a=torch.nn.Parameter(flat[:8]), b=torch.nn.Parameter(flat[4:12]), c=flat[10:14])
    module.again, module.inner = module.a, Holder(a=module.b, z=torch.ones(3))
    module.a.grad, module.b.grad = torch.ones(8), torch.ones(8)
    module.hooked = torch.nn.Parameter(torch.ones(4), requires_grad=False)
    module.late = torch.nn.Parameter(torch.ones(4))
    module.late.register_hook(lambda gradient: gradient)
    module.late.register_post_accumulate_grad_hook(lambda parameter: None)
    module.late.note = "kept"
    module.float16 = torch.nn.Buffer(torch.ones(2, dtype=torch.float16))
    module.number = torch.nn.Buffer(torch.arange(3))
    return module


def viewed() -> Holder:
    """Views that know of their base, count writes together, and are gradients of two parameters."""
    x = torch.arange(10.0)
    module = Holder(x=x, first=x[:6], last=x[4:], minus=torch._neg_view(x)[1:])
    module.p, module.q = torch.nn.Parameter(torch.ones(6)), torch.nn.Parameter(torch.ones(6))
    module.p.grad = module.q.grad = module.first
    module.alone = torch.nn.Buffer(torch.ones(2, dtype=torch.complex64).conj())
    module.used = torch.nn.Parameter(torch.ones(2))
    graph = module.used.sum()
    module.keep_graph = lambda: graph
    x.add_(1)
    return module


def of_other_layouts() -> Holder:
    module = Holder(sparse=torch.eye(3).to_sparse(), rows=torch.eye(3).to_sparse_csr())
    module.wide = torch.nn.Parameter(torch.ones(1, 4).expand(3, 4))
    module.windows = torch.nn.Parameter(torch.arange(6.0).unfold(0, 3, 1))
    module.empty, module.scalar = torch.nn.Buffer(torch.ones(0, 3)), torch.nn.Buffer(torch.ones(()))
    return module


def recurrent() -> torch.nn.Module:
    torch.manual_seed(0)
    module = torch.nn.LSTM(2, 2)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    return module


MODULES: dict[str, Callable[[], torch.nn.Module]] = {
    "tied": tied, "viewed": viewed, "of_other_layouts": of_other_layouts, "recurrent": recurrent,
}  # fmt: skip


def move(*target: Any, **options: Any) -> Callable[[torch.nn.Module], object]:
    return lambda module: memory_aware_to(module, *target, **options)


MOVES: dict[str, Callable[[torch.nn.Module], object]] = {
    "to meta": move("meta"),
    "to meta, low_memory": move("meta", low_memory=True),
    "to float64": move(None, torch.float64),
    "to float64, low_memory": move(None, torch.float64, low_memory=True),
    "to float64, pack": move(None, torch.float64, pack=True),
    "to float64, low_memory, pack": move(None, torch.float64, low_memory=True, pack=True),
}
MOVES["to meta with a map"] = lambda module: ModuleMemoryMap(module).memory_aware_to(module, "meta")
COPIES: dict[str, Callable[[torch.nn.Module], object]] = {
    "copy": memory_aware_deepcopy,
    "copy to meta": lambda module: ModuleMemoryMap(module).copy_to(module, "meta"),
}

# Most ways with the tensors that most is known of; and each kind of way with the others.
WAYS = {
    "tied": {"to float64", "to float64, low_memory", "to meta with a map", *COPIES},
    "viewed": {"to meta", "to float64, low_memory"},
    "of_other_layouts": {"to meta", "copy"},
    "recurrent": set[str](),
}
CASES = [
    (kind, way) for kind in MODULES for way in [*MOVES, *COPIES] if IS_THOROUGH or way in WAYS[kind]
]


def properties_of(module: torch.nn.Module) -> list[list[Any]]:
    """Everything of the tensors of a module: identities, memory, numbers, counters, hooks."""
    results = []
    for path, tensor in tensors_of(module):
        storage: Any = None
        if tensor.layout is torch.strided:
            storage = tensor.untyped_storage()._cdata
            content: Any = None if tensor.is_meta else content_of(tensor)
            place: Any = (tensor.stride(), tensor.storage_offset(), tensor.is_conj())
        else:
            content = None if tensor.is_meta else tensor.to_dense().tolist()
            place = tensor.layout
        results.append([
            path, id(tensor), storage, tensor._base is not None, content, place, tensor.shape,
            tensor.dtype, tensor.device.type, type(tensor), tensor.requires_grad, tensor._version,
            None if tensor.grad is None else id(tensor.grad), len(tensor._backward_hooks or ()),
            len(getattr(tensor, "_post_accumulate_grad_hooks", None) or ()), sorted(vars(tensor)),
        ])  # fmt: skip
    return results


def relative(look: list[list[Any]], has_bases: bool = True) -> list[list[Any]]:
    """A look with numbers for identities, to compare with that of another module."""
    numbers: dict[object, int] = {}
    columns = (1, 2, 12)
    return [
        [
            numbers.setdefault(value, len(numbers)) if column in columns
            else value if has_bases or column != 3 else None
            for column, value in enumerate(row)
        ]
        for row in look
    ]  # fmt: skip


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StorageWeakRef]]:
    """The storages that are allocated."""
    made: list[StorageWeakRef] = []

    def noted(nbytes: int, device: torch.device) -> torch.Tensor:
        data = empty_bytes(nbytes, device)
        made.append(StorageWeakRef(data.untyped_storage()))
        return data

    for name in ALLOCATING:
        monkeypatch.setattr(name, noted)
    yield made


def n_alive(storages: list[StorageWeakRef]) -> int:
    if not all(storage.expired() for storage in storages):
        gc.collect()
    return sum(not storage.expired() for storage in storages)


@pytest.mark.parametrize("kind, way", CASES)
def test_an_interrupt_at_any_line_leaves_all_changed_or_nothing(
    kind: str, way: str, allocated: list[StorageWeakRef]
) -> None:
    make, change = MODULES[kind], (MOVES | COPIES)[way]
    # What low_memory brings back lies in new storages, and its views do not know their base.
    is_exact = "low_memory" not in way
    change(make())  # what is computed only once
    module = make()
    with Trace() as trace:
        change(module)
    after = relative(properties_of(module))
    for number, at in enumerate(places(trace.lines, 40, CASES.index((kind, way)))):
        error = (KeyboardInterrupt, MemoryError)[number % 2]
        module = make()
        before = properties_of(module)
        allocated.clear()
        with Trace(at, error) as interrupt, suppress(error):
            change(module)
        if not interrupt.has_raised:
            # How storages are ordered, and so how many lines there are, depends on addresses.
            assert at > 0.9 * len(trace.lines)
            continue
        assert torch.is_grad_enabled(), interrupt.lines[-1]
        assert not torch._C._is_torch_function_all_disabled(), interrupt.lines[-1]
        look = properties_of(module)
        is_before = look == before
        if not is_exact:
            is_before = is_before or relative(look, False) == relative(before, False)
        assert is_before or relative(look) == after, interrupt.lines[-1]
        if is_exact and is_before:
            assert n_alive(allocated) == 0, interrupt.lines[-1]


def test_an_interrupt_after_a_tensor_without_a_view_was_met_leaves_no_storage(
    allocated: list[StorageWeakRef],
) -> None:
    change, n_tried = COPIES["copy to meta"], 0
    change(of_other_layouts())  # what is computed only once
    with Trace() as trace:
        change(of_other_layouts())
    files = [file for file, _ in trace.lines]
    for at in range(1, len(files)):
        if files[at - 1 : at + 1] == ["_address.py", "_composite.py"]:
            allocated.clear()
            with Trace(at, KeyboardInterrupt) as interrupt, suppress(KeyboardInterrupt):
                change(of_other_layouts())
            assert n_alive(allocated) == 0, interrupt.lines[-1]
            n_tried += interrupt.has_raised
    assert n_tried


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["tied", "viewed"])
@pytest.mark.parametrize("way", ["to meta", "to float64", "to meta with a map"])
def test_a_change_that_fails_is_taken_back_even_if_that_is_interrupted(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, change = MODULES[kind], MOVES[way]
    call = _at_once._call
    n_calls = 0
    fails_at = 0
    trace = Trace()

    def call_or_fail(prepared: Callable[[], object]) -> object:
        nonlocal n_calls
        # Labels of version counters, of which there are none on the way back, are not counted.
        caller = sys._getframe(2).f_code.co_name
        if caller == "publish":
            n_calls += 1
            if n_calls == fails_at:
                trace.arm()
                raise RuntimeError("planted")
        return call(prepared)

    monkeypatch.setattr(_at_once, "_call", call_or_fail)
    change(make())
    n_in_all = n_calls
    assert n_in_all > 5
    for number in range(
        2, n_in_all, 1 if IS_THOROUGH else 4
    ):  # not the guard, which is the first and the last
        for at in range(number % 3, 1000, 1 if IS_THOROUGH else 3):
            module = make()
            before = properties_of(module)
            n_calls, fails_at = 0, number
            trace = Trace(at, KeyboardInterrupt)
            with pytest.raises((RuntimeError, KeyboardInterrupt)):
                change(module)
            sys.settrace(None)
            torch.set_grad_enabled(True)
            assert properties_of(module) == before, (number, at, trace.lines[-1:])
            if not trace.has_raised:
                break
        assert at > 5


@pytest.mark.parametrize("kind", ["tied", "viewed"])
def test_what_is_brought_back_comes_back_even_if_that_is_interrupted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, change = MODULES[kind], MOVES["to float64, low_memory"]
    n_allocations = 0
    fails_at = -1
    trace = Trace()

    def allocate(nbytes: int, device: torch.device) -> torch.Tensor:
        nonlocal n_allocations
        n_allocations += 1
        if n_allocations == fails_at:
            trace.arm()
            raise torch.OutOfMemoryError("planted")
        return empty_bytes(nbytes, device)

    for name in ALLOCATING:
        monkeypatch.setattr(name, allocate)
    change(make())
    fails_at = n_allocations
    with pytest.raises(torch.OutOfMemoryError, match="planted"):
        n_allocations = 0
        change(make())
    sys.settrace(None)
    met = places(trace.lines, every=40)
    for at in met:
        module = make()
        before = properties_of(module)
        n_allocations = 0
        trace = Trace(at, KeyboardInterrupt)
        with pytest.raises((torch.OutOfMemoryError, KeyboardInterrupt)):
            change(module)
        sys.settrace(None)
        torch.set_grad_enabled(True)
        assert relative(properties_of(module), False) == relative(before, False), trace.lines[-1:]
    assert len(met) > 50


@pytest.mark.each_value
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("way", ["move", "copy"])
def test_what_a_map_knows_changes_with_the_module_or_not_at_all(
    way: str, is_late: bool, allocated: list[StorageWeakRef]
) -> None:
    """After an interrupt, what shares memory still does when all is done once more."""

    def make() -> tuple[ModuleMemoryMap, list[torch.nn.Module]]:
        flat = torch.arange(20.0)
        modules: list[torch.nn.Module] = [Holder(a=flat[:8].data, b=flat[4:12].data)]
        modules[0].register_buffer("c", torch.ones(2))
        # A module that is not registered before must be apart from what is placed.
        second = flat[14:].data if is_late else flat[6:].data
        modules += [Holder(a=modules[0].c, b=second), Holder(a=flat[15:18].data)]
        memory_map = ModuleMemoryMap()
        for module in modules[:1] if is_late else modules:
            memory_map.register_module(module)
        place(memory_map, modules[0])
        return memory_map, modules

    def place(memory_map: ModuleMemoryMap, module: torch.nn.Module) -> torch.nn.Module:
        if way == "move":
            return memory_map.memory_aware_to(module, "meta")
        return memory_map.copy_to(module, "meta")

    def result(memory_map: ModuleMemoryMap, modules: list[torch.nn.Module]) -> list[list[int]]:
        placed = [place(memory_map, module) for module in modules]
        return sharing_of([tensor for module in placed for _, tensor in tensors_of(module)])

    expected = result(*make())
    memory_map, modules = make()
    with Trace() as trace:
        place(memory_map, modules[1])
    for at in places(trace.lines, every=3):
        memory_map, modules = make()
        state = memory_map._state
        allocated.clear()
        with Trace(at, KeyboardInterrupt), suppress(KeyboardInterrupt):
            place(memory_map, modules[1])
        assert memory_map._state is not state or n_alive(allocated) == 0, trace.lines[at]
        assert result(memory_map, modules) == expected, trace.lines[at]


def test_shared_variables_are_updated_all_or_none() -> None:
    x = variable("x")

    def make() -> tuple[Any, list[Any]]:
        variables = [shared(torch.zeros(2)), shared(torch.zeros(3)), shared(torch.zeros(2))]
        first, second, third = variables
        updates = {first: first + x, second: x * 2, third: third + x + 1}
        return function([x], first + 1, updates=updates), variables

    def values(variables: list[Any]) -> list[list[float]]:
        return [variable.get_value().tolist() for variable in variables]

    compute, variables = make()
    compute(torch.ones(2))
    compute, variables = make()
    before = values(variables)
    with Trace() as trace:
        compute(torch.ones(2))
    after = values(variables)
    assert before != after
    for at in places(trace.lines, every=1):
        compute, variables = make()
        with Trace(at, KeyboardInterrupt), suppress(KeyboardInterrupt):
            compute(torch.ones(2))
        assert values(variables) in (before, after), trace.lines[at]
        assert torch.is_grad_enabled(), trace.lines[at]
        for variable_ in variables:
            with pytest.raises(OwnershipError, match="memory must have one owner"):
                shared(variable_.tensor, borrow=True)


def test_memory_has_one_owner_after_an_interrupt_while_a_value_is_set() -> None:
    def make() -> tuple[Any, Any, Any]:
        old, new = np.zeros(4), np.ones(4)
        return shared(old, borrow=True), old, new

    owner, old, new = make()
    owner.set_value(new, borrow=True)
    owner, old, new = make()
    with Trace() as trace:
        owner.set_value(new, borrow=True)
    for at in places(trace.lines, every=1):
        owner, old, new = make()
        with Trace(at, KeyboardInterrupt), suppress(KeyboardInterrupt):
            owner.set_value(new, borrow=True)
        held, free = (new, old) if np.shares_memory(owner.get_value(borrow=True), new) else (
            old, new,
        )  # fmt: skip
        with pytest.raises(OwnershipError, match="memory must have one owner"):
            shared(held, borrow=True)
        assert shared(free, borrow=True).borrowed, trace.lines[at]


def test_an_interrupt_is_heard_after_the_last_of_some_calls() -> None:
    made: list[int] = []
    calls: list[_at_once.Call] = [
        partial(made.append, 1),
        _thread.interrupt_main,
        partial(made.append, 2),
    ]
    # A shell that runs the tests in the background has interrupts ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _at_once.at_once([*calls, partial(made.append, 3)])
    finally:
        signal.signal(signal.SIGINT, handler)
    assert made == [1, 2, 3]
    assert not torch._C._is_torch_function_all_disabled()


def test_modes_and_subclasses_run_no_code_of_theirs_while_tensors_change() -> None:
    seen: list[str] = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, *args: Any) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, *args)  # type: ignore[no-untyped-call]

    module = Holder(a=torch.ones(3).as_subclass(Watching))
    tensor = module.a
    with torch.device("cpu"):
        memory_aware_to(module, dtype=torch.float64)
    assert "__set__" not in seen
    assert module.a is tensor and type(tensor) is Watching and tensor.dtype == torch.float64

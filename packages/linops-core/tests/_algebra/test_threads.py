"""Operands on threads: the same bits, the same state, the same errors, and nothing left behind."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core import SimpleLinop, Stack
from linops_core._algebra import _threads as threads_module
from linops_core._algebra._threads import (
    check_workers,
    combine_on_threads,
    current_device_and_streams,
)
from linops_core._kernels._accumulate import accumulate

Function = Callable[[Tensor], Tensor]


def operator(*functions: Function, threaded: bool = True, num_workers: int | None = 2) -> Stack:
    linops = [SimpleLinop(function, function) for function in functions]
    return Stack(*linops, odim_and_idx=("K", 0), threaded=threaded, num_workers=num_workers)


class Recorder:
    """A function that notes what torch's state is where it runs, and on which thread."""

    def __init__(self) -> None:
        self.states: list[dict[str, object]] = []
        self.threads: list[threading.Thread] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.states.append(state())
        self.threads.append(threading.current_thread())
        return x

    @property
    def here(self) -> bool:
        return set(self.threads) == {threading.current_thread()}


def state() -> dict[str, object]:
    return {
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
        "autocast dtype": [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda")],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
    }


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def deterministic() -> Iterator[None]:
    torch._C._set_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(False)


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def another_number_of_threads() -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(count + 1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


@contextmanager
def autocast_for_cuda() -> Iterator[None]:
    # torch.autocast enables it only where there is a GPU.
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


CARRIED: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "nothing": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.float16),
    "autocast for another device": autocast_for_cuda,
    "autocast without cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "default dtype": default_dtype,
    "deterministic": deterministic,
    "number of threads": another_number_of_threads,
}


@pytest.mark.parametrize("mode", CARRIED)
@pytest.mark.parametrize("other", ["nothing", "no_grad", "inference", "autocast"])
def test_the_state_of_the_callers_thread_is_that_of_each_operand(mode: str, other: str) -> None:
    record = Recorder()
    A, x = operator(record, record, record), torch.ones(2)
    with CARRIED[mode](), CARRIED[other]():
        expected = state()
        A(x)
    assert record.states == [expected] * 3
    assert threading.current_thread() not in record.threads


class PassOnFunctions(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        return func(*args, **(kwargs or {}))


class PassOnDispatch(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):
    pass


def under(mode: Callable[[], AbstractContextManager[object]]) -> Callable[[Stack], object]:
    def run(A: Stack) -> object:
        with mode():
            return A(torch.ones(2))

    return run


NOT_CARRIED: dict[str, Callable[[Stack], object]] = {
    "vmap": lambda A: torch.vmap(A)(torch.ones(2, 3)),
    "jacrev": lambda A: torch.func.jacrev(A)(torch.ones(2)),
    "jvp": lambda A: torch.func.jvp(A, (torch.ones(2),), (torch.ones(2),)),
    "functionalize": lambda A: torch.func.functionalize(A)(torch.ones(2)),
    "make_fx": lambda A: make_fx(A)(torch.ones(2)),
    "device": under(lambda: torch.device("meta")),
    "default device": under(default_device),
    "function mode": under(PassOnFunctions),
    "dispatch mode": under(PassOnDispatch),
    "fake mode": under(FakeTensorMode),
    "fake tensor": lambda A: A(FakeTensorMode().from_tensor(torch.ones(2))),
    "subclass": lambda A: A(torch.ones(2).as_subclass(Subclass)),
    "saved tensors": under(lambda: saved_tensors_hooks(lambda x: x, lambda x: x)),
    "jit.trace": lambda A: torch.jit.trace(A, torch.ones(2), check_trace=False),
    "one operand": lambda A: operator(A.linops[0].forward)(torch.ones(2)),
    "one worker": lambda A: operator(*A.linops, num_workers=1)(torch.ones(2)),
}


# Tracing is deprecated, forward gradients load something that is, and both tell.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", NOT_CARRIED)
def test_what_cannot_be_carried_over_stays_on_the_callers_thread(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_module, "_Task", None)
    record = Recorder()
    NOT_CARRIED[mode](operator(record, record))
    assert record.here


def test_threads_start_no_threads() -> None:
    record = Recorder()
    operator(operator(record, record), operator(record, record))(torch.ones(2))
    assert len(set(record.threads)) == 2 and threading.current_thread() not in record.threads


def test_compiled_operators_stay_on_one_thread_and_in_one_graph() -> None:
    A = operator(lambda x: 2 * x, lambda x: 3 * x, lambda x: 4 * x)
    for linop, x in ((A, torch.ones(2)), (A.H, torch.ones(3, 2))):
        compiled = torch.compile(linop, backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), linop(x))


variable: ContextVar[int] = ContextVar("variable", default=0)


def test_context_variables_are_carried_over_and_changes_are_not_carried_back() -> None:
    seen: list[int] = []

    def note(x: Tensor) -> Tensor:
        seen.append(variable.get())
        variable.set(variable.get() + 1)
        return x

    token = variable.set(5)
    try:
        operator(note, note, note)(torch.ones(1))
        assert seen == [5, 5, 5] and variable.get() == 5
    finally:
        variable.reset(token)


def multiply(factor: float, seconds: float = 0) -> Function:
    def function(x: Tensor) -> Tensor:
        time.sleep(seconds)
        return factor * x

    return function


@given(
    factors=st.lists(st.floats(-1e10, 1e10, width=32), min_size=1, max_size=6),
    num_workers=st.none() | st.integers(1, 4),
    side=st.sampled_from(["idim", "odim", "both"]),
)
def test_results_are_the_same_bits(
    factors: list[float], num_workers: int | None, side: str
) -> None:
    n = len(factors)
    delays = [(0.002 if i % 2 == 0 else 0) for i in range(n)]  # later ones are ready first
    linops = [
        SimpleLinop(multiply(f, s), multiply(f)) for f, s in zip(factors, delays, strict=True)
    ]
    sides: dict[str, Any] = {
        which: ("K", 0)
        for which in ("idim_and_idx", "odim_and_idx")
        if side == "both" or which.startswith(side)
    }
    A = Stack(*linops, **sides)
    B = Stack(*linops, **sides, threaded=True, num_workers=num_workers)
    x = torch.randn((3,) if side == "odim" else (n, 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(A(x), B(x))
    y = A(x)
    assert torch.equal(A.H(y), B.H(y)) and torch.equal(A.N(x), B.N(x))


def test_gradients_are_right_and_the_same_bits_on_every_run() -> None:
    factors = torch.randn(8, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 6, 8)

    def wavy(factor: float, i: int) -> Function:
        def function(x: Tensor) -> Tensor:
            time.sleep(0.001 * (i * 5 % 3))
            return (factor * x).sin() * 3

        return function

    functions = [wavy(float(factor), i) for i, factor in enumerate(factors)]
    x = torch.randn(5, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def gradient(threaded: bool, num_workers: int | None = None) -> Tensor:
        A = operator(*functions, threaded=threaded, num_workers=num_workers)
        (result,) = torch.autograd.grad(A(x).sum(), x)
        return result

    first = gradient(True, 3)
    torch.testing.assert_close(first, gradient(False))
    for num_workers in (2, 3, None) * 3:
        assert torch.equal(gradient(True, num_workers), first)


def test_operands_run_at_once() -> None:
    barrier = threading.Barrier(3, timeout=60)

    def wait(x: Tensor) -> Tensor:
        barrier.wait()
        return x

    assert operator(wait, wait, wait, num_workers=3)(torch.ones(1)).tolist() == [[1]] * 3


@pytest.mark.parametrize("width", [2, 3])
def test_no_more_operands_are_at_work_or_waiting_than_asked_for(width: int) -> None:
    started, lead = [0], [0]

    def count(x: Tensor) -> Tensor:
        started[0] += 1
        return x

    def slowly(results: Iterable[Tensor]) -> Tensor:
        taken = 0
        for _ in results:
            taken += 1
            time.sleep(0.005)  # time to start what would be started
            lead[0] = max(lead[0], started[0] - taken)
        return torch.tensor(taken)

    pairs = [(SimpleLinop(count, count), torch.ones(1))] * 8
    assert combine_on_threads(slowly, pairs, threaded=True, num_workers=width) == 8
    assert started == [8] and lead[0] == width


def test_no_result_is_kept_longer_than_it_is_needed() -> None:
    alive: list[int] = []
    made: list[weakref.ref[Tensor]] = []

    def make(x: Tensor) -> Tensor:
        made.append(weakref.ref(result := x + 1))
        return result

    def look(results: Iterable[Tensor]) -> Tensor:
        for _ in results:
            del _
            time.sleep(0.01)  # time for those at work to end
            alive.append(sum(ref() is not None for ref in made))
        return torch.tensor(0)

    pairs = [(SimpleLinop(make, make), torch.ones(1))] * 5
    combine_on_threads(look, pairs, threaded=True, num_workers=2)
    assert max(alive) == 2 and alive[-1] == 0


def test_an_error_keeps_nothing_alive() -> None:
    class Value:
        pass

    held: list[weakref.ref[Value]] = []

    def fail(x: Tensor) -> Tensor:
        value = Value()
        held.append(weakref.ref(value))
        raise FirstError

    gc.disable()
    try:
        with pytest.raises(FirstError):
            operator(fail, fail)(torch.ones(1))
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


def n_threads_of_ours() -> int:
    return sum(thread.name == "linops" for thread in threading.enumerate())


class FirstError(Exception):
    pass


def test_the_first_error_in_order_is_raised_when_all_threads_have_ended() -> None:
    ended = []

    def fail(error: Exception, seconds: float) -> Function:
        def function(x: Tensor) -> Tensor:
            time.sleep(seconds)
            ended.append(error)
            raise error

        return function

    A = operator(
        multiply(1), fail(FirstError("first"), 0.02), fail(ValueError("second"), 0), num_workers=3
    )
    for _ in range(2):
        with pytest.raises(FirstError, match=r"^first$") as caught:
            A(torch.ones(1))
        assert n_threads_of_ours() == 0
    assert len(ended) == 4 and caught.traceback[-1].name == "function"


def test_operands_after_an_error_are_not_begun() -> None:
    begun = []

    def note(x: Tensor) -> Tensor:
        begun.append(1)
        return x

    def fail(x: Tensor) -> Tensor:
        raise FirstError

    with pytest.raises(FirstError):
        operator(fail, *[note] * 8, num_workers=2)(torch.ones(1))
    assert len(begun) <= 1


def test_threads_end_when_the_results_do_not_fit() -> None:
    pairs = [(SimpleLinop(torch.clone, torch.clone), torch.ones(n)) for n in (1, 2, 3, 4)]
    with pytest.raises(ValueError, match=r"all terms must return one shape"):
        combine_on_threads(accumulate, pairs, threaded=True, num_workers=4)
    assert n_threads_of_ours() == 0


def test_no_thread_is_left_behind() -> None:
    operator(multiply(1), multiply(2), multiply(3))(torch.ones(1))
    assert n_threads_of_ours() == 0


@pytest.mark.parametrize("num_workers", [0, -1, 1.5, "2"])
def test_a_number_of_threads_is_a_positive_integer(num_workers: Any) -> None:
    with pytest.raises(ValueError, match=r"^Stack: num_workers must be a positive integer, got"):
        check_workers("Stack", True, num_workers)
    with pytest.raises(ValueError, match=r"num_workers must be a positive integer"):
        operator(multiply(1), num_workers=num_workers)


@pytest.mark.gpu
def test_streams_and_the_current_device_are_carried_over() -> None:
    seen = []

    def note(x: Tensor) -> Tensor:
        seen.append((torch.cuda.current_stream(), torch.cuda.current_device()))
        return 2 * x

    x = torch.ones(2, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    last = torch.cuda.device_count() - 1
    with torch.cuda.stream(stream), torch.cuda.device(last):
        y = operator(note, note)(x)
        expected = (torch.cuda.current_stream(), last)
    stream.synchronize()
    assert seen == [expected] * 2 and y.tolist() == [[2, 2], [2, 2]]
    assert current_device_and_streams()[1] == []


@pytest.mark.gpu
def test_a_captured_graph_replays_all_operands() -> None:
    A, x = operator(multiply(2), multiply(3)), torch.ones(2, device="cuda")
    A(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = A(x)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [[10, 10], [15, 15]]

"""Operands on threads, each in the state that torch keeps for the caller's thread.

A thread begins with torch's defaults: gradients on, no autocast, the default stream. What torch has
a public way to set is carried over to it. Where there is more, operands run one after another: see
`is_portable`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import islice
from threading import Thread

import torch
from torch import Tensor, nn

from .._base._linop import NamedLinop

Call = Callable[[], Tensor]

_on_worker: ContextVar[bool] = ContextVar("_on_worker", default=False)


def check_workers(owner: str, num_workers: int | None) -> None:
    """Refuse a number of threads that is none."""
    if num_workers is not None and (not isinstance(num_workers, int) or num_workers < 1):
        raise ValueError(f"{owner}: num_workers must be a positive integer, got {num_workers!r}")


def combined(
    combine: Callable[[Iterable[Tensor]], Tensor],
    pairs: Iterable[tuple[NamedLinop, Tensor]],
    threaded: bool,
    num_workers: int | None,
) -> Tensor:
    """Return ``combine`` of what the operands return for their inputs, in their order.

    With threads the results are the same bits, and gradients the same on every run: each operand
    runs on one thread, and results, at most ``num_workers`` at a time, are handed to ``combine`` in
    the order of the operands. So are errors: of the first in order, when all threads have ended.
    """
    if not threaded or torch.compiler.is_compiling():
        return combine(linop(part) for linop, part in pairs)
    calls = [partial(linop, part) for linop, part in pairs]
    width = min(len(calls), num_workers or os.cpu_count() or 1)
    plain = all(type(call.args[0]) in (Tensor, nn.Parameter) for call in calls)
    if width < 2 or not plain or _on_worker.get() or not is_portable():
        return combine(call() for call in calls)
    with closing(_on_threads(calls, width)) as results:
        return combine(results)


def is_portable() -> bool:
    """Whether another thread can be put in the state of this one.

    It cannot while torch traces, transforms (``torch.func``) or records a graph, nor under
    a mode for functions (a default device is one), a mode for dispatch or hooks for saved tensors.
    """
    autograd = torch._C._autograd
    return not (
        torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or not torch._C._is_torch_function_enabled()
        or autograd._top_saved_tensors_default_hooks(True) is not None
        or autograd._saved_tensors_hooks_get_disabled_error_message() is not None
        or _is_captured()
    )


class ThreadState:
    """What torch keeps for the thread that makes this, as far as it can be carried over."""

    def __init__(self) -> None:
        self._inference, self._gradients = (
            torch.is_inference_mode_enabled(),
            torch.is_grad_enabled(),
        )
        accelerator = torch.accelerator.current_accelerator()
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda", *([accelerator.type] if accelerator else []))
        ]
        self._autocast_cache = torch.is_autocast_cache_enabled()
        self._device_index, self._streams = _accelerator_state()
        self._keys = _dispatch_keys()

    def apply(self, call: Call) -> Tensor | None:
        """Return what ``call`` returns in this state, on a new thread that ends after it.

        None if the thread did not get there.
        """
        for stream in self._streams:
            torch.accelerator.set_stream(stream)
        if self._device_index is not None:
            torch.accelerator.set_device_index(self._device_index)
        for kind, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(self._autocast_cache)
        # The mode of inference sets that of gradients, so it comes first.
        with torch.inference_mode(self._inference), torch.set_grad_enabled(self._gradients):
            return call() if _dispatch_keys() == self._keys else None


class _Task(Thread):
    """One call on a thread of its own.

    Of its own, because autograd numbers operations by thread: which gradient comes first must not
    depend on which operands a thread had before.
    """

    def __init__(self, call: Call, state: ThreadState) -> None:
        super().__init__(name="linops", daemon=True)
        self._call, self._state = call, state
        self._context = copy_context()
        self._result: Tensor | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        self._context.run(_on_worker.set, True)
        try:
            self._result = self._context.run(self._state.apply, self._call)
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Wait for the end, and raise what the call raised."""
        self.join()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback knows this frame, and would keep all of it alive

    def result(self) -> Tensor:
        """Return what the call returned, once: it is not kept."""
        result, self._result = self._result, None
        return self._call() if result is None else result

    def discard(self) -> None:
        """Wait for the end, and forget what the call returned or raised."""
        self.join()
        self._result = self._error = None


def _on_threads(calls: Sequence[Call], width: int) -> Generator[Tensor, None, None]:
    """Yield the results of ``calls`` in order, at most ``width`` at work or waiting."""
    state = ThreadState()
    tasks: deque[_Task] = deque()
    coming = iter(calls)

    def start(n: int) -> None:
        for call in islice(coming, n):
            task = _Task(call, state)
            task.start()
            tasks.append(task)

    try:
        start(width)
        while tasks:
            task = tasks.popleft()
            task.wait()
            start(1)
            yield task.result()
    finally:
        for task in tasks:
            task.discard()


def _is_captured() -> bool:
    """Whether CUDA records what this thread does, to play it back later."""
    in_use = torch.cuda.is_initialized()
    return in_use and torch.cuda.is_current_stream_capturing()


def _accelerator_state() -> tuple[int | None, list[torch.Stream]]:
    """Return the current device and the current streams that are not the default ones."""
    kind = torch.accelerator.current_accelerator()
    module = None if kind is None else torch.get_device_module(kind)
    is_used = getattr(module, "is_initialized", None)
    # A device that was not used yet has no state to carry over, and asking would start it.
    if is_used is None or not is_used():
        return None, []
    current = torch.accelerator.current_device_index()
    streams = map(torch.accelerator.current_stream, range(torch.accelerator.device_count()))
    return current, [stream for stream in streams if stream.stream_id != 0]


def _dispatch_keys() -> tuple[int, int]:
    """Return which kinds of kernels torch takes on this thread, and which it leaves out.

    They sum up what changes an operation: also what nobody thought of.
    """
    included = torch._C._dispatch_tls_local_include_set()
    return included.raw_repr(), torch._C._dispatch_tls_local_exclude_set().raw_repr()

"""Operands on threads that have the torch state of the calling thread.

A new thread has torch's defaults: gradients on, no autocast, the default stream. State with a
public setter is copied to the thread. If there is other state, operands run one after another.
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

from memmap.siblings import check_flags

from .._base._linop import NamedLinop
from .._kernels._torch_state import (
    has_hooks_for_saved_tensors,
    is_in_a_mode,
    is_in_jit_trace,
    is_transformed,
)
from .._numbers import is_size

Call = Callable[[], Tensor]

_on_worker: ContextVar[bool] = ContextVar("_on_worker", default=False)


def check_workers(owner: str, threaded: bool, num_workers: int | None) -> None:
    """Raise an error if the flag is none, or the number of threads is not positive."""
    check_flags(owner, threaded=threaded)
    if num_workers is not None and not is_size(num_workers):
        raise ValueError(f"{owner}: num_workers must be a positive integer, got {num_workers!r}")


def combine_on_threads(
    combine: Callable[[Iterable[Tensor]], Tensor],
    pairs: Iterable[tuple[NamedLinop, Tensor]],
    threaded: bool,
    num_workers: int | None,
) -> Tensor:
    """Return ``combine`` of the results of the operands, in order."""
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
    """Whether another thread can get the state of this one.

    It cannot while torch traces, transforms (``torch.func``) or captures a graph, under a function
    mode (such as a default device) or a dispatch mode, or with hooks for saved tensors.
    """
    return not (
        is_in_jit_trace()
        or is_transformed()
        or is_in_a_mode()
        or has_hooks_for_saved_tensors()
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    )


def state_of_this_thread() -> Callable[[Call], Tensor]:
    """Return a function that calls another one in the state of this thread."""
    inference, gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    accelerator = torch.accelerator.current_accelerator()
    autocast = [
        (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda", *([accelerator.type] if accelerator else []))
    ]
    keeps_casts = torch.is_autocast_cache_enabled()
    device, streams = current_device_and_streams()

    def made(call: Call) -> Tensor:
        _on_worker.set(True)
        for stream in streams:
            torch.accelerator.set_stream(stream)
        if device is not None:
            torch.accelerator.set_device_index(device)
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(keeps_casts)
        # Inference mode sets the gradient mode, so it comes first.
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
            return call()

    return made


def current_device_and_streams() -> tuple[int | None, list[torch.Stream]]:
    """Return the current device and the current streams that are not the default ones."""
    kind = torch.accelerator.current_accelerator()
    is_used = getattr(kind and torch.get_device_module(kind), "is_initialized", None)
    # An unused device has no state, and a query would initialise it.
    if is_used is None or not is_used():
        return None, []
    streams = map(torch.accelerator.current_stream, range(torch.accelerator.device_count()))
    changed = [stream for stream in streams if stream.stream_id != 0]
    return torch.accelerator.current_device_index(), changed


class _Task(Thread):
    """One call on a new thread.

    Autograd numbers operations by thread. With one thread for each call, the order of gradients
    does not depend on earlier calls.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(name="linops", daemon=True)
        self._call, self._context = call, copy_context()
        self._result: Tensor | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:
            self._error = error

    def ended(self) -> tuple[Tensor | None, BaseException | None]:
        """Wait for the end, and return the result and the error; neither is kept."""
        self.join()
        ended = self._result, self._error
        self._result = self._error = None
        return ended


def _on_threads(calls: Sequence[Call], width: int) -> Generator[Tensor, None, None]:
    """Yield the results of ``calls`` in order, with at most ``width`` running or waiting."""
    made = state_of_this_thread()
    tasks: deque[_Task] = deque()
    coming = iter(calls)

    def start(n: int) -> None:
        for call in islice(coming, n):
            tasks.append(_Task(partial(made, call)))
            tasks[-1].start()

    def next_result() -> Tensor:
        result, error = tasks.popleft().ended()
        if result is None:
            try:
                raise error or AssertionError
            finally:
                del error  # its traceback would keep this frame alive
        start(1)
        return result

    try:
        start(width)
        while tasks:
            yield next_result()
    finally:
        for task in tasks:
            task.ended()

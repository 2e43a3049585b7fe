"""The simulated machine: devices, memory, streams, links and a host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TypeAlias

import torch
from torch import Tensor

from .._device import DEVICE_TYPE
from .._order import Shadow
from ._memory import HostMemory, SimMemory
from ._streams import Scheduler, SimStream, Task

Duration: TypeAlias = float | Callable[[str, int], float]
"""Seconds, or a function that gets the name and bytes of the work and returns seconds."""


class Machine:
    """Devices with memory and streams, links between them, and a host."""

    def __init__(self, n_devices: int, memory: int | None, scheduler: Scheduler) -> None:
        self.devices = [torch.device(DEVICE_TYPE, index) for index in range(n_devices)]
        self.scheduler = scheduler
        self.checker, self.entered = scheduler.checker, scheduler.entered
        self.host_memory = HostMemory()
        self.moved: list[tuple[str, str, int]] = []
        self.copy_cost: Duration = 0.0
        self.kernel_cost: Duration = 0.0
        self.cut_links: set[tuple[torch.device, torch.device]] = set()
        self.corrupt_links: set[tuple[torch.device, torch.device]] = set()
        self._memories = {d: SimMemory(d, memory, scheduler) for d in self.devices}
        self._default_streams = {d: scheduler.new_stream(d) for d in self.devices}
        self._current_streams: dict[tuple[int, torch.device], SimStream] = {}  # of each thread

    def named(self, device: torch.device | str) -> torch.device:
        """Return a device with its index."""
        result = torch.device(device)
        if result.type != DEVICE_TYPE or (result.index or 0) >= len(self.devices):
            names = ", ".join(map(str, self.devices))
            raise RuntimeError(f"simulated: the device must be one of {names}, got {result}")
        return self.devices[result.index or 0]

    def current_stream(self, device: torch.device | str) -> SimStream:
        """Return the current stream of this thread on ``device``."""
        named = self.named(device)
        return self._current_streams.get((get_ident(), named), self._default_streams[named])

    @contextmanager
    def using(self, stream: SimStream) -> Iterator[None]:
        """Make ``stream`` the current one of its device inside the block, for this thread."""
        self.scheduler.check_own(stream)
        key, before = (get_ident(), stream.device), self.current_stream(stream.device)
        self._current_streams[key] = stream
        try:
            yield
        finally:
            self._current_streams[key] = before

    def memory_of(self, device: torch.device | str) -> SimMemory:
        """Return the memory of a device."""
        with self.entered():
            return self._memories[self.named(device)]

    def empty(
        self, device: torch.device, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Return a new tensor on ``device``, for its current stream; its values are NaN."""
        stream = self.current_stream(device)
        return self.memory_of(device).empty(stream, size, stride, dtype)

    def on_host(self, tensor: Tensor) -> Tensor:
        """Return a host tensor that shares the memory of ``tensor``."""
        if tensor.device.type == DEVICE_TYPE:
            return self.memory_of(tensor.device).twin(tensor)
        return tensor.data

    def launch(
        self,
        stream: SimStream,
        name: str,
        run: Callable[[], object],
        *,
        reads: Sequence[Tensor] = (),
        writes: Sequence[Tensor] = (),
        link: str | None = None,
    ) -> None:
        """Give work to ``stream``; it runs in its turn, on a link or on the compute units."""
        self.checker.begin(stream.actor, name)
        for tensor in (*reads, *writes):
            if tensor.numel():
                self.checker.access(stream.actor, self._shadow_of(tensor), tensor, writes)
        nbytes = sum(tensor.nbytes for tensor in (*reads, *writes))
        cost = self.kernel_cost if link is None else self.copy_cost
        duration = cost(name, nbytes) if callable(cost) else cost
        engine = link or f"compute of {stream.device}"
        self.scheduler.give(stream, Task(run, engine=engine, name=name, duration=duration))

    def host_access(self, touched: Sequence[Tensor], written: Sequence[Tensor], name: str) -> None:
        """Check that the host may use its own memory that devices use too."""
        for tensor in touched:
            shadow = self.host_memory.find(tensor)
            if shadow is not None:
                self.checker.begin(self.checker.host, name)
                self.checker.access(self.checker.host, shadow, tensor, written)

    def _shadow_of(self, tensor: Tensor) -> Shadow:
        if tensor.device.type == DEVICE_TYPE:
            return self.memory_of(tensor.device).block_of(tensor).shadow
        return self.host_memory.track(tensor)

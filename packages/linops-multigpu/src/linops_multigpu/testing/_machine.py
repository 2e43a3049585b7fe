"""The simulated machine: what happens on it, and who is told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor

from ._bytes import Bytes, bytes_of
from ._checker import Checker
from ._clock import Action, Actor
from ._cost import Trace
from ._host import HostMemory, host_tensors
from ._memory import Memory
from ._queue import SimEvent, SimStream, Task
from ._registration import DEVICE_TYPE
from ._scheduler import Scheduler
from ._schedules import Schedule
from ._shadow import Shadow
from ._source import calling_line

Duration: TypeAlias = float | Callable[[str, int], float]
"""Seconds, or a function of the name of the work and its bytes that returns seconds."""

_Look = Callable[[Actor, Shadow, Bytes, str], None]


class _Currents(threading.local):
    """The current streams of a thread, by number of their device."""

    def __init__(self) -> None:
        self.streams: dict[int, SimStream] = {}


class Machine:
    """Devices with memory and streams, a host, and what watches them.

    Parameters
    ----------
    n_devices : int
    memory : int, optional
        Bytes that each device has.
    schedule : Schedule
    """

    def __init__(self, n_devices: int, memory: int | None, schedule: Schedule) -> None:
        self.devices = [torch.device(DEVICE_TYPE, index) for index in range(n_devices)]
        self.checker = Checker()
        self.scheduler = Scheduler(schedule)
        self.memory = Memory(self, memory)
        self.host_memory = HostMemory()
        self.trace = Trace()
        self.moved: list[tuple[str, str, int]] = []
        self.copy_cost: Duration = 0.0
        self.kernel_cost: Duration = 0.0
        self.cut_links: set[tuple[torch.device, torch.device]] = set()
        self.corrupt_links: set[tuple[torch.device, torch.device]] = set()
        self._lock = threading.RLock()
        self._currents = _Currents()
        self._default_streams = [self.new_stream(device) for device in self.devices]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the only thread that is at it; what was released meanwhile is free."""
        with self._lock:
            self.memory.free_released()
            yield

    def index_of(self, device: torch.device | str) -> int:
        """Return the number of a device.

        Raises
        ------
        RuntimeError
            If there is no such device.
        """
        found = torch.device(device)
        index = found.index or 0
        if found.type != DEVICE_TYPE or index >= len(self.devices):
            names = ", ".join(map(str, self.devices))
            raise RuntimeError(f"simulated: the device must be one of {names}, got {found}")
        return index

    def check_own(self, thing: SimStream | SimEvent) -> None:
        """Refuse what belongs to another machine: its clocks count other actors.

        Raises
        ------
        ValueError
            If it does.
        """
        if thing.machine is not self:
            raise ValueError(
                "simulated: streams and events must be of one machine, got one of another"
            )

    def new_stream(self, device: torch.device | str) -> SimStream:
        """Return a stream of its own."""
        with self.entered():
            place = self.devices[self.index_of(device)]
            name = f"stream {len(self.scheduler.streams)} of {place}"
            stream = SimStream(self, place, self.checker.new_actor(name))
            self.scheduler.streams.append(stream)
            return stream

    def current_stream(self, device: torch.device | str) -> SimStream:
        """Return the stream on which this thread's work on ``device`` goes."""
        index = self.index_of(device)
        return self._currents.streams.get(index, self._default_streams[index])

    @contextmanager
    def using(self, stream: SimStream) -> Iterator[None]:
        """Make ``stream`` the current one of its device inside the block, for this thread."""
        self.check_own(stream)
        currents = self._currents.streams
        index, before = self.index_of(stream.device), self.current_stream(stream.device)
        currents[index] = stream
        try:
            yield
        finally:
            currents[index] = before

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
        """Let ``stream`` do something with memory when it gets to it.

        Parameters
        ----------
        stream : SimStream
        name : str
        run : function
        reads, writes : sequence of Tensor
            On simulated devices, or on the host.
        link : str, optional
            The engine of a copy; other work takes the compute units of the device.
        """
        self.checker.begin(stream.actor, Action(name, calling_line()))
        for tensor in reads:
            self._access(stream, tensor, self.checker.read)
        for tensor in writes:
            self._access(stream, tensor, self.checker.write)
        nbytes = sum(tensor.nbytes for tensor in (*reads, *writes))
        cost = self.kernel_cost if link is None else self.copy_cost
        duration = cost(name, nbytes) if callable(cost) else cost
        self.trace.work(stream, link or f"compute of {stream.device}", name, duration)
        self.scheduler.give(stream, Task(run=run))

    def host_access(self, touched: Sequence[Tensor], written: Sequence[Tensor], name: str) -> None:
        """Check that the host may use memory of its own that devices have used too."""
        host = self.checker.host
        for tensor in host_tensors(touched):
            entry = self.host_memory.tracked(tensor)
            if entry is not None:
                self.checker.begin(host, Action(name, calling_line()))
                writes = any(tensor is other for other in written)
                look = self.checker.write if writes else self.checker.read
                look(host, entry.shadow, bytes_of(tensor, entry.address), "cpu")

    def _access(self, stream: SimStream, tensor: Tensor, look: _Look) -> None:
        if tensor.numel() == 0:
            return
        if tensor.device.type == DEVICE_TYPE:
            block = self.memory.block_of(tensor)
            look(stream.actor, block.shadow, bytes_of(tensor, block.address), str(tensor.device))
        else:
            entry = self.host_memory.track(tensor)
            look(stream.actor, entry.shadow, bytes_of(tensor, entry.address), "cpu")

"""The simulated machine: devices with memory and streams, and what was found out about a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ._bytes import Bytes, bytes_of
from ._checker import Checker, RaceError
from ._clock import Action, Actor
from ._cost import Interval, Trace, busiest, makespan
from ._host import HostMemory, host_tensors
from ._host_access import HostAccess
from ._memory import Memory
from ._queue import SimEvent, SimStream, Task
from ._registration import DEVICE_TYPE
from ._scheduler import Scheduler
from ._schedules import schedule_named
from ._shadow import Shadow
from ._source import calling_line

Duration = float | Callable[[str, int], float]
"""Seconds, or a function of the name of the work and its bytes that returns seconds."""

Look = Callable[[Actor, Shadow, Bytes, str], None]


class World:
    """A machine with simulated devices, while :func:`simulated` lasts.

    Attributes
    ----------
    devices : list of torch.device
    races : list of str
        What the checker found.
    moved : list of tuple
        Source, destination and number of bytes of every copy between devices or with the host.
    """

    def __init__(
        self,
        n_devices: int,
        memory: int | None,
        schedule: str,
        seed: int,
    ) -> None:
        self.devices = [torch.device(DEVICE_TYPE, index) for index in range(n_devices)]
        self.checker = Checker()
        self.host_memory = HostMemory()
        self.trace = Trace()
        self.moved: list[tuple[str, str, int]] = []
        self.scheduler = Scheduler(schedule_named(schedule, seed))
        self.memory = Memory(self, memory)
        self._lock = threading.RLock()
        self._current = threading.local()
        self._unreachable: set[tuple[torch.device, torch.device]] = set()
        self._corrupted: set[tuple[torch.device, torch.device]] = set()
        self._copy_cost: Duration = 0.0
        self._kernel_cost: Duration = 0.0
        self._default = [self.new_stream(device) for device in self.devices]

    @property
    def races(self) -> list[str]:
        """Accesses to the same memory in an order that nothing decides, in words."""
        with self.entered():
            return list(self.checker.races)

    def check(self) -> None:
        """Raise an error if there was a race.

        Raises
        ------
        RaceError
            With all that was found.
        """
        races = self.races
        if races:
            raise RaceError(f"{len(races)} race(s):\n" + "\n".join(races))

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Check what this thread does with memory of the host, and keep autograd on it.

        The thread that called :func:`simulated` is attached; another one has to say so.
        """
        # Threads of autograd's own would each have other current streams.
        with HostAccess(self), torch.autograd.set_multithreading_enabled(False):
            yield

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for stream in list(self.scheduler.streams):
            stream.synchronize()

    # Streams.

    def current_stream(self, device: torch.device | str) -> SimStream:
        """Return the stream on which this thread's work on ``device`` goes."""
        index = self.index_of(device)
        return self._currents().get(index, self._default[index])

    def new_stream(self, device: torch.device | str) -> SimStream:
        """Return a stream of its own."""
        with self.entered():
            place = self.devices[self.index_of(device)]
            name = f"stream {len(self.scheduler.streams)} of {place}"
            stream = SimStream(self, place, self.checker.new_actor(name))
            self.scheduler.streams.append(stream)
            return stream

    def new_event(self) -> SimEvent:
        """Return an event that has not been recorded."""
        return SimEvent(self)

    @contextmanager
    def using(self, stream: SimStream) -> Iterator[None]:
        """Make ``stream`` the current one of its device inside the block, for this thread."""
        currents, index = self._currents(), self.index_of(stream.device)
        before = currents.get(index)
        currents[index] = stream
        try:
            yield
        finally:
            if before is None:
                del currents[index]
            else:
                currents[index] = before

    def record_use(self, tensor: Tensor, stream: SimStream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given by then."""
        with self.entered():
            self.memory.record_use(tensor, stream)

    # Memory.

    def allocated_nbytes(self, device: torch.device | str) -> int:
        """Return how many bytes tensors on ``device`` have now."""
        with self.entered():
            return self.memory.allocators[self.index_of(device)].allocated

    leaked_nbytes = allocated_nbytes

    def peak_nbytes(self, device: torch.device | str) -> int:
        """Return how many bytes tensors on ``device`` had at most."""
        with self.entered():
            return self.memory.allocators[self.index_of(device)].peak

    def reset_peak(self) -> None:
        """Let the peak of every device be what is allocated now."""
        with self.entered():
            for allocator in self.memory.allocators:
                allocator.peak = allocator.allocated

    # The links between devices.

    def can_reach(self, device: torch.device | str, peer: torch.device | str) -> bool:
        """Whether ``device`` can read and write the memory of ``peer`` by itself."""
        return self._pair(device, peer) not in self._unreachable

    def cut_link(self, device: torch.device | str, peer: torch.device | str) -> None:
        """Let ``device`` reach the memory of ``peer`` no more; copies go by way of the host."""
        self._unreachable.add(self._pair(device, peer))

    def corrupt_link(self, source: torch.device | str, destination: torch.device | str) -> None:
        """Let copies from ``source`` to ``destination`` arrive wrong, without an error."""
        self._corrupted.add(self._pair(source, destination))

    def is_corrupt(self, source: torch.device, destination: torch.device) -> bool:
        """Whether copies from ``source`` to ``destination`` arrive wrong."""
        return (source, destination) in self._corrupted

    # Time.

    def set_cost(self, *, copy: Duration = 0.0, kernel: Duration = 0.0) -> None:
        """Say how long work takes from now on; time starts at zero.

        Parameters
        ----------
        copy, kernel : float or function
            Seconds of each copy between devices or with the host, and of anything else; or a
            function of the name of the work and the bytes that it reads and writes.
        """
        with self.entered():
            self._copy_cost, self._kernel_cost = copy, kernel
            self.trace = Trace()

    def timeline(self) -> list[Interval]:
        """Return all work since the costs were set: engine, name, start and end, by start."""
        with self.entered():
            return self.trace.timeline()

    def makespan(self) -> float:
        """Return how many seconds all work since the costs were set takes."""
        return makespan(self.timeline())

    def busiest(self) -> tuple[str, float]:
        """Return the engine that works longest, and for how many seconds."""
        return busiest(self.timeline())

    # What the rest of this package needs, which enters first.

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the only thread that is at it; what was released meanwhile is free."""
        with self._lock:
            self.memory.free_released()
            yield

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
        cost = self._kernel_cost if link is None else self._copy_cost
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

    def _access(self, stream: SimStream, tensor: Tensor, look: Look) -> None:
        if tensor.numel() == 0:
            return
        if tensor.device.type == DEVICE_TYPE:
            block = self.memory.block_of(tensor)
            touched = bytes_of(tensor, block.address)
            look(stream.actor, block.shadow, touched, str(tensor.device))
        else:
            entry = self.host_memory.track(tensor)
            look(stream.actor, entry.shadow, bytes_of(tensor, entry.address), "cpu")

    def _currents(self) -> dict[int, SimStream]:
        if not hasattr(self._current, "streams"):
            self._current.streams = {}
        streams: dict[int, SimStream] = self._current.streams
        return streams

    def _pair(
        self, first: torch.device | str, second: torch.device | str
    ) -> tuple[torch.device, torch.device]:
        return self.devices[self.index_of(first)], self.devices[self.index_of(second)]

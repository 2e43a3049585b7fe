"""The simulated machine: devices with memory and streams, and what was found out about a run."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ._allocator import POISON, Allocator, Block, known_after
from ._bytes import bytes_of
from ._checker import Checker, RaceError
from ._clock import Action
from ._cost import Interval, Trace, busiest, makespan
from ._dlpack import tensor_over
from ._host import HostMemory, host_tensors
from ._queue import Marker, SimEvent, SimStream, Task
from ._registration import DEVICE_TYPE, conjugated_like, outside_of_modes, without_memory
from ._schedules import schedule_named

aten = torch.ops.aten
Duration = float | Callable[[str, int], float]
"""Seconds, or a function of the name of the work and its bytes that returns seconds."""

_HERE, _TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)


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
        self._lock = threading.RLock()
        self._schedule = schedule_named(schedule, seed)
        self._streams: list[SimStream] = []
        self._allocators = [Allocator(device, memory) for device in self.devices]
        self._released: deque[Block] = deque()
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

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for stream in list(self._streams):
            stream.synchronize()

    # Streams.

    def current_stream(self, device: torch.device | str) -> SimStream:
        """Return the stream on which this thread's work on ``device`` goes."""
        index = self._index(device)
        return self._currents().get(index, self._default[index])

    def new_stream(self, device: torch.device | str) -> SimStream:
        """Return a stream of its own."""
        with self.entered():
            place = self.devices[self._index(device)]
            name = f"stream {len(self._streams)} of {place}"
            stream = SimStream(self, place, self.checker.new_actor(name))
            self._streams.append(stream)
            return stream

    def new_event(self) -> SimEvent:
        """Return an event that has not been recorded."""
        return SimEvent(self)

    @contextmanager
    def using(self, stream: SimStream) -> Iterator[None]:
        """Make ``stream`` the current one of its device inside the block, for this thread."""
        currents, index = self._currents(), self._index(stream.device)
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
            if tensor.untyped_storage().nbytes():
                self.block_of(tensor).users[stream] = None

    # Memory.

    def allocated_nbytes(self, device: torch.device | str) -> int:
        """Return how many bytes tensors on ``device`` have now."""
        with self.entered():
            return self._allocators[self._index(device)].allocated

    leaked_nbytes = allocated_nbytes

    def peak_nbytes(self, device: torch.device | str) -> int:
        """Return how many bytes tensors on ``device`` had at most."""
        with self.entered():
            return self._allocators[self._index(device)].peak

    def reset_peak(self) -> None:
        """Let the peak of every device be what is allocated now."""
        with self.entered():
            for allocator in self._allocators:
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

    # What the rest of this package needs.

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the only thread that is at it; what was freed meanwhile is free."""
        with self._lock:
            while self._released:
                self._free(self._released.popleft())
            yield

    def line(self) -> str:
        """Return the line of source that asked for what happens now."""
        frame = sys._getframe(1)
        while frame.f_back is not None and _is_plumbing(frame.f_code.co_filename):
            frame = frame.f_back
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"

    def give(self, stream: SimStream, task: Task) -> None:
        """Let ``stream`` do something when it gets to it."""
        stream.tasks.append(task)
        n_steps = self._schedule.n_steps()
        while n_steps is None or n_steps > 0:
            if not self._step():
                return
            n_steps = None if n_steps is None else n_steps - 1

    def run_until(self, marker: Marker) -> None:
        """Let the streams work until ``marker`` is reached. The host does not learn of it."""
        while not marker.reached:
            if not self._step():
                raise RuntimeError("simulated: no stream can go on, each waits for another")

    def finish(self, stream: SimStream) -> None:
        """Let ``stream`` do all that it was given. The host does not learn of it."""
        marker = Marker({})
        stream.tasks.append(Task(reaches=marker))
        self.run_until(marker)

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
        self.checker.begin(stream.actor, Action(name, self.line()))
        for tensor in reads:
            self._access(stream, tensor, writes=False)
        for tensor in writes:
            self._access(stream, tensor, writes=True)
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in (*reads, *writes))
        cost = self._kernel_cost if link is None else self._copy_cost
        duration = cost(name, nbytes) if callable(cost) else cost
        self.trace.work(stream, link or f"compute of {stream.device}", name, duration)
        self.give(stream, Task(run=run))

    def host_access(self, touched: Sequence[Tensor], written: Sequence[Tensor], name: str) -> None:
        """Check that the host may use memory of its own that devices have used too."""
        for tensor in host_tensors(touched):
            entry = self.host_memory.tracked(tensor)
            if entry is not None:
                host = self.checker.host
                self.checker.begin(host, Action(name, self.line()))
                writes = any(tensor is other for other in written)
                look = self.checker.write if writes else self.checker.read
                look(host, entry.shadow, bytes_of(tensor, entry.address), "cpu")

    def empty(
        self, device: torch.device, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Return a new tensor on ``device``, for the current stream; its values are poison."""
        index = self._index(device)
        last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        nbytes = (last + 1) * dtype.itemsize if all(size) else 0
        if nbytes == 0:
            nothing = tensor_over(torch.empty(0, dtype=torch.uint8), dtype, index, _nothing)
            return _laid_out(nothing, size, stride)
        stream = self.current_stream(device)
        block, reused = self._allocators[index].take(stream, nbytes)
        self.checker.begin(stream.actor, Action("allocation", self.line()))
        block.renew()
        if reused:
            self.give(stream, Task(run=partial(block.memory.fill_, POISON)))
        released = partial(self._released.append, block)
        return _laid_out(tensor_over(block.memory, dtype, index, released), size, stride)

    def block_of(self, tensor: Tensor) -> Block:
        """Return the memory of a tensor on a simulated device."""
        return self._allocators[self._index(tensor.device)].block_at(
            tensor.untyped_storage().data_ptr()
        )

    def twin(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the host with the memory of one on a simulated device."""
        if tensor.numel() == 0:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        block = self.block_of(tensor)
        storage = block.memory.untyped_storage()[tensor.data_ptr() - block.address :]
        plain = torch.empty(0, dtype=tensor.dtype)
        plain.set_(storage, 0, tensor.size(), tensor.stride())
        return conjugated_like(plain, tensor)

    def _access(self, stream: SimStream, tensor: Tensor, *, writes: bool) -> None:
        if tensor.numel() == 0:
            return
        look = self.checker.write if writes else self.checker.read
        if tensor.device.type == DEVICE_TYPE:
            block = self.block_of(tensor)
            look(stream.actor, block.shadow, bytes_of(tensor, block.address), block.place)
        else:
            entry = self.host_memory.track(tensor)
            look(stream.actor, entry.shadow, bytes_of(tensor, entry.address), "cpu")

    def _free(self, block: Block) -> None:
        actor = block.stream.actor
        self.checker.begin(actor, Action("free", self.line()))
        markers = []
        for user in block.users:
            marker = Marker(user.actor.clock)
            markers.append(marker)
            self.give(user, Task(reaches=marker))
        self.checker.free(actor, block.shadow, known_after(block, markers), block.place)
        self._allocators[self._index(block.stream.device)].give_back(block, markers)

    def _step(self) -> bool:
        ready = [number for number, stream in enumerate(self._streams) if stream.can_go_on()]
        if not ready:
            return False
        # In inference mode every tensor may be written to, and autograd hears nothing of it.
        with outside_of_modes(), torch.inference_mode():
            self._streams[self._schedule.pick(ready)].go_on()
        return True

    def _currents(self) -> dict[int, SimStream]:
        if not hasattr(self._current, "streams"):
            self._current.streams = {}
        streams: dict[int, SimStream] = self._current.streams
        return streams

    def _pair(
        self, first: torch.device | str, second: torch.device | str
    ) -> tuple[torch.device, torch.device]:
        return self.devices[self._index(first)], self.devices[self._index(second)]

    def _index(self, device: torch.device | str) -> int:
        found = torch.device(device)
        index = found.index or 0
        if found.type != DEVICE_TYPE or index >= len(self.devices):
            names = ", ".join(map(str, self.devices))
            raise RuntimeError(f"simulated: the device must be one of {names}, got {found}")
        return index


def _laid_out(tensor: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    laid_out: Tensor = without_memory(aten.as_strided.default, (tensor, size, stride), {})
    return laid_out


def _is_plumbing(file: str) -> bool:
    return file.startswith((_HERE, _TORCH)) or file == "<string>"


def _nothing() -> None:
    """Do nothing: no memory is released with an empty tensor."""

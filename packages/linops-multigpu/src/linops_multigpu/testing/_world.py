"""What a user of simulated devices asks of them, and changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter

import torch
from torch import Tensor

from ._machine._cost import Interval, timeline
from ._machine._machine import Duration, Machine
from ._machine._streams import SimEvent, SimStream
from ._operators._host_access import HostAccess, HostReads
from ._order._checker import RaceError

Device = torch.device | str


class World:
    """A machine with simulated devices, while :func:`simulated` lasts.

    It is also the backend through which this package works on their streams.

    Attributes
    ----------
    devices : list of torch.device
    moved : list of tuple of (str, str, int)
        Source, destination and number of bytes of every copy between devices or with the host.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.devices = machine.devices
        self.moved = machine.moved

    # Races.

    @property
    def races(self) -> list[str]:
        """Accesses to the same memory in an order that nothing decides, in words."""
        with self._machine.entered():
            return list(self._machine.checker.races)

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
        with (
            HostAccess(self._machine),
            HostReads(self._machine),
            torch.autograd.set_multithreading_enabled(False),
        ):
            yield

    # Streams.

    def current_stream(self, device: Device) -> SimStream:
        """Return the stream on which this thread's work on ``device`` goes."""
        return self._machine.current_stream(device)

    def new_stream(self, device: Device) -> SimStream:
        """Return a stream of its own."""
        return self._machine.scheduler.new_stream(self._named(device))

    def new_event(self, device: Device | None = None) -> SimEvent:
        """Return an event that has not been recorded, for streams of any device."""
        return SimEvent(self._machine.scheduler)

    def using(self, stream: SimStream) -> AbstractContextManager[None]:
        """Make ``stream`` the current one of its device inside the block, for this thread."""
        return self._machine.using(stream)

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for stream in list(self._machine.scheduler.streams):
            stream.synchronize()

    # Memory.

    def record_use(self, tensor: Tensor, stream: SimStream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given by then.

        That is, by the time that the last reference to the memory is gone.
        """
        self._machine.scheduler.check_own(stream)
        with self._machine.entered():
            self._machine.memory_of(tensor.device).record_use(tensor, stream)

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return pinned memory of the host for a contiguous copy of ``like``."""
        with self._machine.entered():
            return self._machine.host_memory.empty_pinned(like)

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether devices copy to and from ``tensor``, on the host, while the host goes on."""
        with self._machine.entered():
            return self._machine.host_memory.is_pinned(tensor)

    def allocated_nbytes(self, device: Device) -> int:
        """Return how many bytes tensors on ``device`` have now."""
        with self._machine.entered():
            return self._machine.memory_of(device).allocated

    def peak_nbytes(self, device: Device) -> int:
        """Return how many bytes tensors on ``device`` had at most."""
        with self._machine.entered():
            return self._machine.memory_of(device).peak

    def reset_peak(self) -> None:
        """Let the peak of every device be what is allocated now."""
        with self._machine.entered():
            for memory in map(self._machine.memory_of, self.devices):
                memory.peak = memory.allocated

    # The links between devices.

    def can_reach(self, device: Device, peer: Device) -> bool:
        """Whether ``device`` can read and write the memory of ``peer``, if that is simulated."""
        if torch.device(peer).type != torch.device(device).type:
            return False
        return (self._named(device), self._named(peer)) not in self._machine.cut_links

    def cut_link(self, device: Device, peer: Device) -> None:
        """Let ``device`` reach the memory of ``peer`` no more; copies go by way of the host."""
        self._machine.cut_links.add((self._named(device), self._named(peer)))

    def corrupt_link(self, source: Device, destination: Device) -> None:
        """Let copies from ``source`` to ``destination`` arrive wrong, without an error."""
        self._machine.corrupt_links.add((self._named(source), self._named(destination)))

    def _named(self, device: Device) -> torch.device:
        return self.devices[self._machine.index_of(device)]

    # Time.

    def set_cost(self, *, copy: Duration = 0.0, kernel: Duration = 0.0) -> None:
        """Say how long work takes from now on; time starts at zero.

        Parameters
        ----------
        copy, kernel : float or function
            Seconds of each copy between devices or with the host, and of anything else; or a
            function of the name of the work and the bytes that it reads and writes.
        """
        with self._machine.entered():
            self._machine.copy_cost, self._machine.kernel_cost = copy, kernel
            self._machine.scheduler.given.clear()

    def timeline(self) -> list[Interval]:
        """Return all work since the costs were set: engine, name, start and end, by start."""
        with self._machine.entered():
            return timeline(self._machine.scheduler.given)

    def makespan(self) -> float:
        """Return how many seconds all work since the costs were set takes."""
        return max((interval.end for interval in self.timeline()), default=0.0)

    def busiest(self) -> tuple[str, float]:
        """Return the engine that works longest, and for how many seconds."""
        busy: dict[str, float] = {}
        for engine, _, start, end in self.timeline():
            busy[engine] = busy.get(engine, 0.0) + end - start
        return max(busy.items(), key=itemgetter(1), default=("", 0.0))

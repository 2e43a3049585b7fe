"""simulated: the entry point to simulated devices, and the methods for its users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from linops_multigpu._devices._streams import register_backend
from linops_multigpu._execution._timeline import Timeline

from ._device import DEVICE_TYPE, activated, register
from ._machine._cost import timeline
from ._machine._machine import Duration, Machine
from ._machine._streams import Scheduler, SimEvent, SimStream
from ._operators._dispatch import OWN, HostAccess, HostReads, run
from ._order import RaceError

Device = torch.device | str


class World(Machine):
    """A machine with simulated devices. It is also the backend of their streams.

    Attributes
    ----------
    devices : list of torch.device
    moved : list of tuple of (str, str, int)
        Source, destination and number of bytes of every copy between devices or with the host.
    """

    current_stream = Machine.current_stream
    using = Machine.using

    @property
    def races(self) -> list[str]:
        """Descriptions of accesses to the same memory without a defined order."""
        with self.entered():
            return list(self.checker.races)

    def check(self) -> None:
        """Raise a :class:`RaceError` with all races, if there was one."""
        if races := self.races:
            raise RaceError(f"{len(races)} race(s):\n" + "\n".join(races))

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Check this thread's accesses to host memory, and run autograd in this thread.

        The thread that called :func:`simulated` is attached; other threads must call this.
        """
        # Autograd's own threads would each have other current streams.
        one_thread = torch.autograd.set_multithreading_enabled(False)
        with HostAccess(self), HostReads(self), one_thread:
            yield

    def new_stream(self, device: Device) -> SimStream:
        """Return a new stream."""
        return self.scheduler.new_stream(self.named(device))

    def new_event(self, device: Device | None = None) -> SimEvent:
        """Return an event that has not been recorded, for streams of any device."""
        return SimEvent(self.scheduler)

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for stream in list(self.scheduler.streams):
            stream.synchronize()

    def record_use(self, tensor: Tensor, stream: SimStream) -> None:
        """Reuse the memory only after the work that ``stream`` has when the memory is freed."""
        self.scheduler.check_own(stream)
        with self.entered():
            self.memory_of(tensor.device).record_use(tensor, stream)

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return pinned host memory for a copy of ``like``, without gaps."""
        with self.entered():
            return self.host_memory.pin(torch.empty_like(like, device="cpu"))

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether copies between devices and ``tensor``, on the host, run asynchronously."""
        return self.host_memory.is_pinned(tensor)

    def allocated_nbytes(self, device: Device) -> int:
        """Return the number of bytes that tensors on ``device`` take now."""
        return self.memory_of(device).allocated

    def peak_nbytes(self, device: Device) -> int:
        """Return the largest number of bytes that tensors on ``device`` took at a time."""
        return self.memory_of(device).peak

    def reset_peak(self) -> None:
        """Set the peak of every device to the bytes that are allocated now."""
        for memory in map(self.memory_of, self.devices):
            memory.peak = memory.allocated

    def can_reach(self, device: Device, peer: Device) -> bool:
        """Whether ``device`` can read and write the memory of ``peer``, if that is simulated."""
        if torch.device(peer).type != DEVICE_TYPE:
            return False
        return (self.named(device), self.named(peer)) not in self.cut_links

    def cut_link(self, device: Device, peer: Device) -> None:
        """Remove the access of ``device`` to the memory of ``peer``; copies use the host."""
        self.cut_links.add((self.named(device), self.named(peer)))

    def corrupt_link(self, source: Device, destination: Device) -> None:
        """Corrupt copies from ``source`` to ``destination``, without an error."""
        self.corrupt_links.add((self.named(source), self.named(destination)))

    def set_cost(self, *, copy: Duration = 0.0, kernel: Duration = 0.0) -> None:
        """Set how long work takes from now on, and restart the clock at zero.

        Parameters
        ----------
        copy, kernel : float or function
            Seconds of each copy between devices or with the host, and of all other work; or a
            function that gets the name of the work and the bytes that it reads and writes.
        """
        with self.entered():
            self.copy_cost, self.kernel_cost = copy, kernel
            self.scheduler.given.clear()

    def timeline(self) -> Timeline:
        """Return all work since the costs were set, by start; times are in seconds."""
        with self.entered():
            return timeline(self.scheduler.given)


@contextmanager
def simulated(
    n_devices: int = 4,
    *,
    memory: int | None = None,
    schedule: str = "oldest",
    seed: int = 0,
    check: bool = True,
) -> Iterator[World]:
    """Provide devices ``sim:0``, ``sim:1`` and so on inside the block, simulated on the CPU.

    Tensors on them are ordinary tensors with real values. Their work is done later, in one of the
    orders that the program allows. For every memory access it is checked that the accesses on which
    it depends come before it. The page "Simulated devices" says what is checked, and what is not.

    Parameters
    ----------
    n_devices : int
    memory : int, optional
        The memory of each device in bytes. Default: unlimited.
    schedule : str
        The order in which streams work, one of `SCHEDULES`. ``seed`` is used by ``random``.
    check : bool
        Raise an error at the end of the block if there was a race.

    Yields
    ------
    World

    Raises
    ------
    RaceError
        At the end, if there was a race.
    RuntimeError
        If there is another accelerator in this process, or if a machine is simulated already.
    AttributeError
        If this version of torch lacks an internal name.
    ValueError
        If the schedule does not exist, `n_devices` is less than one, or `memory` is negative.

    Notes
    -----
    A backward pass runs on the calling thread and its current streams; on a real device each part
    runs on the stream of its forward pass. If the forward pass ran on your own streams, make them
    current (:meth:`World.using`) around the call of ``backward``. Otherwise a race may be reported
    that a real device does not have.

    Examples
    --------
    >>> import torch
    >>> with simulated(n_devices=2) as world:
    ...     x = torch.ones(3, device="sim:0")
    ...     y = (2 * x).to("sim:1").cpu()
    ...     world.moved
    [('sim:0', 'sim:1', 12), ('sim:1', 'cpu', 12)]
    >>> y
    tensor([2., 2., 2.])
    """
    if not isinstance(n_devices, int) or n_devices < 1:
        raise ValueError(f"simulated: n_devices must be a positive integer, got {n_devices!r}")
    if memory is not None and (not isinstance(memory, int) or memory < 0):
        raise ValueError(f"simulated: memory must be None or an integer >= 0, got {memory!r}")
    register(OWN)
    world = World(n_devices, memory, Scheduler(schedule, seed))
    with activated(partial(run, world), n_devices):
        register_backend(DEVICE_TYPE, world)
        with world.attached():
            yield world
            world.synchronize()
    if check:
        world.check()

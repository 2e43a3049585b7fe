"""The output of a batched operator: the memory on the base device, and how results get there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from .._devices._stream_pool import DeviceStreams
from .._devices._streams import Event, HostBackend, recorded_on
from .._devices._transfer import Transfer, issue
from ._plan import Action, Plan


@dataclass(frozen=True)
class Lane:
    """The streams between the base device and another one."""

    here: DeviceStreams
    there: DeviceStreams


class Output(ABC):
    """The output, and the part of it that each tile writes.

    Parameters
    ----------
    plan : Plan
    base : DeviceStreams
    y : Tensor
        Memory for it, made on the stream that computes on the base device.
    places : sequence of Tensor
        Of each tile the view of ``y`` that it writes.
    """

    def __init__(
        self, plan: Plan, base: DeviceStreams, y: Tensor, places: Sequence[Tensor]
    ) -> None:
        self.plan, self.base, self.y, self.places = plan, base, y, places

    @abstractmethod
    def take(self, result: Tensor, action: Action, after: Sequence[Event]) -> None:
        """Put a result of the base device where it belongs, once all of ``after`` have happened."""

    def put(self, result: Tensor, action: Action) -> None:
        """Write or add to the output, on the stream that computes on the base device."""
        with self.base.backend.using(self.base.compute):
            if action.adds:
                self.places[action.tile].add_(result)
            else:
                self.places[action.tile].copy_(result)

    @abstractmethod
    def collect(self, result: Tensor, action: Action, lane: Lane, ready: Event | None) -> Transfer:
        """Start the way of a result from its device to the output."""

    @abstractmethod
    def add(self, action: Action) -> None:
        """Add to the output what was collected."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all is there that was collected."""


class DeviceOutput(Output):
    """An output on a device: results are copied to their places, or to buffers to be added."""

    def __init__(
        self, plan: Plan, base: DeviceStreams, y: Tensor, places: Sequence[Tensor]
    ) -> None:
        super().__init__(plan, base, y, places)
        lengths = [0] * plan.n_slots
        for action in plan.actions:
            if action.slot is not None:
                lengths[action.slot] = max(lengths[action.slot], self.places[action.tile].numel())
        with base.backend.using(base.compute):
            self.slots = [self.y.new_empty(length) for length in lengths]
        self.vacant = recorded_on(base.compute, base.backend)

    def collect(self, result: Tensor, action: Action, lane: Lane, ready: Event | None) -> Transfer:
        """Start the way of a result to its place, or to a buffer."""
        into = self.places[action.tile] if action.slot is None else self.buffer(action)
        return issue(result, lane.there, lane.here, ready=ready, into=into, vacant=self.vacant)

    def take(self, result: Tensor, action: Action, after: Sequence[Event]) -> None:
        """Put a result of the base device where it belongs, after what was collected there."""
        for event in after:
            self.base.compute.wait_event(event)
        self.put(result, action)

    def buffer(self, action: Action) -> Tensor:
        """Return the part of a buffer that holds what is to be added."""
        assert action.slot is not None
        place = self.places[action.tile]
        return self.slots[action.slot][: place.numel()].view(place.shape)

    def add(self, action: Action) -> None:
        """Add what is in the buffer."""
        self.put(self.buffer(action), action)

    def finish(self) -> None:
        """Do nothing: who uses the output waits for the copies to it."""


class HostOutput(Output):
    """An output on the host, which puts what arrives where it belongs, in the order of the plan.

    It does so as late as it can, for it has to wait then: when so many results are on their way
    that no more pinned memory should be taken for them.
    """

    def __init__(
        self, plan: Plan, base: DeviceStreams, y: Tensor, places: Sequence[Tensor]
    ) -> None:
        super().__init__(plan, base, y, places)
        # No transfers, which would keep the memory of the devices.
        self.on_the_way: deque[tuple[Tensor, Event | None, Action]] = deque()
        self.n_at_most = plan.n_lanes * plan.max_in_flight

    def collect(self, result: Tensor, action: Action, lane: Lane, ready: Event | None) -> Transfer:
        """Start the way of a result to pinned memory."""
        self.make_room()
        transfer = issue(result, lane.there, lane.here, ready=ready)
        self.on_the_way.append((transfer.copy, transfer.arrived, action))
        return transfer

    def take(self, result: Tensor, action: Action, after: Sequence[Event]) -> None:
        """Put a result of the host where it belongs, when what is on the way has been put there."""
        if self.on_the_way:
            self.make_room()
            self.on_the_way.append((result, None, action))
        else:
            self.put(result, action)

    def make_room(self) -> None:
        """Have at most so many results on the way that one more may be."""
        while len(self.on_the_way) >= self.n_at_most:
            self.land()

    def land(self) -> None:
        """Put the result where it belongs that has been on the way for longest."""
        result, arrived, action = self.on_the_way.popleft()
        if arrived is not None:
            arrived.synchronize()
        self.put(result, action)

    def add(self, action: Action) -> None:
        """Do nothing: it is added in its turn, when it is there."""

    def finish(self) -> None:
        """Put all where it belongs."""
        while self.on_the_way:
            self.land()


def output_on(base: DeviceStreams) -> type[Output]:
    """Return the kind of output for a base device."""
    return HostOutput if isinstance(base.backend, HostBackend) else DeviceOutput

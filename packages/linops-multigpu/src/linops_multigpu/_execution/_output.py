"""The output of a batched operator: its memory on the base device, and how results get there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from linops_split.siblings import Output, Work

from .._devices._stream_pool import DeviceStreams
from .._devices._streams import Event, HostBackend, recorded_on
from .._devices._transfer import Transfer, issue
from ._plan import Action, Plan


@dataclass(frozen=True)
class StreamsBetween:
    """The streams between the base device and another one."""

    local: DeviceStreams
    remote: DeviceStreams


class WiderDtype(Exception):
    """A result does not fit into the dtype of the output; a wider dtype is needed."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self.dtype = dtype


class DeviceOutput(Output):
    """An output on a device.

    Results are copied to their slices, or to buffers if they are to be added. `dtype` is the least
    dtype of the output.
    """

    def __init__(
        self, plan: Plan, base: DeviceStreams, work: Work, dtype: torch.dtype | None
    ) -> None:
        super().__init__(work)
        self.plan, self.base, self.dtype = plan, base, dtype

    def admitted(self, number: int, result: Tensor) -> Tensor:
        """Return a result in the dtype of the output; the first result makes the output."""
        with self.base.backend.using(self.base.compute):
            self.slice_for(number, result)
        assert self.y is not None
        return result.to(self.y.dtype)

    def make(self, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Return memory on the base device."""
        if self.dtype is not None:
            dtype = torch.promote_types(dtype, self.dtype)
        new = torch.empty if self.layout.fills else torch.zeros
        return new(self.layout.shape(like.shape), dtype=dtype, device=self.plan.base)

    def promoted(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Raise WiderDtype, because results may be on their way to the old output."""
        raise WiderDtype(dtype)

    def write(self, result: Tensor, action: Action) -> None:
        """Write or add to the output, on the compute stream of the base device."""
        with self.base.backend.using(self.base.compute):
            if action.adds:
                self.slices[action.tile].add_(result)
            else:
                self.slices[action.tile].copy_(result)

    def use(self, y: Tensor) -> None:
        """Use this memory for the output, and make the buffers."""
        super().use(y)
        lengths = [0] * self.plan.n_slots
        for action in self.plan.actions:
            if action.slot is not None:
                length = self.slices[action.tile].numel()
                lengths[action.slot] = max(lengths[action.slot], length)
        self.slots = [y.new_empty(length) for length in lengths]
        self.vacant = recorded_on(self.base.compute, self.base.backend)

    def collect(
        self, result: Tensor, action: Action, lane: StreamsBetween, ready: Event | None
    ) -> Transfer:
        """Start the copy of a result to its slice, or to a buffer."""
        into = self.slices[action.tile] if action.slot is None else self.buffer(action)
        return issue(result, lane.remote, lane.local, ready=ready, into=into, vacant=self.vacant)

    def take(self, result: Tensor, action: Action, after: Sequence[Event]) -> None:
        """Write a result of the base device to its slice, after the results collected before."""
        for event in after:
            self.base.compute.wait_event(event)
        self.write(result, action)

    def buffer(self, action: Action) -> Tensor:
        """Return the part of a buffer that holds the result of an action."""
        assert action.slot is not None
        like = self.slices[action.tile]
        return self.slots[action.slot][: like.numel()].view(like.shape)

    def add(self, action: Action) -> None:
        """Add the result in the buffer to its slice."""
        self.write(self.buffer(action), action)

    def finish(self) -> None:
        """Do nothing: the users of the output wait for the copies."""


class HostOutput(DeviceOutput):
    """An output on the host, which writes results to their slices in the order of the plan.

    Writing has to wait for the result to arrive, so it is done as late as possible: when the number
    of results in pinned memory reaches the limit.
    """

    def use(self, y: Tensor) -> None:
        """Use this memory for the output; no results are on their way."""
        Output.use(self, y)
        # Not the transfers, which would keep memory of the devices.
        self.on_the_way: deque[tuple[Tensor, Event | None, Action]] = deque()

    def collect(
        self, result: Tensor, action: Action, lane: StreamsBetween, ready: Event | None
    ) -> Transfer:
        """Start the copy of a result to pinned memory."""
        self.make_room()
        transfer = issue(result, lane.remote, lane.local, ready=ready)
        self.on_the_way.append((transfer.copy, transfer.arrived, action))
        return transfer

    def take(self, result: Tensor, action: Action, after: Sequence[Event]) -> None:
        """Write a result of the host to its slice, after the results on their way."""
        if self.on_the_way:
            self.make_room()
            self.on_the_way.append((result, None, action))
        else:
            self.write(result, action)

    def make_room(self) -> None:
        """Write results until there is room for one more."""
        while len(self.on_the_way) >= self.plan.n_lanes * self.plan.max_in_flight:
            self.land()

    def land(self) -> None:
        """Write the result that has been on its way longest."""
        result, arrived, action = self.on_the_way.popleft()
        if arrived is not None:
            arrived.synchronize()
        self.write(result, action)

    def add(self, action: Action) -> None:
        """Do nothing: the result is added in its turn, after it has arrived."""

    def finish(self) -> None:
        """Write all remaining results."""
        while self.on_the_way:
            self.land()


def output_on(base: DeviceStreams) -> type[DeviceOutput]:
    """Return the class of outputs for a base device."""
    return HostOutput if isinstance(base.backend, HostBackend) else DeviceOutput

"""Carrying out a plan: copies, work and sums, issued by one thread to the streams of all devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from linops_split import Tiling

from ._device_spec import DeviceSpec
from ._plan import Action, Kind, Plan
from ._stream_pool import DeviceStreams, streams_on
from ._streams import Event
from ._transfer import send


@dataclass(frozen=True)
class Worker:
    """A tile where it works."""

    apply: Callable[[Tensor], Tensor]
    device: DeviceSpec
    base: DeviceSpec


class CannotBeWritten(Exception):
    """A result is such that it cannot be written into the output of the ones before."""


def execute(
    plan: Plan,
    tiling: Tiling,
    workers: Sequence[Worker],
    x: Tensor,
    record_start: Callable[[object], Event],
) -> Tensor:
    """Return what the tiles make of ``x``, as the plan says.

    The result may be used on the current stream of the base device. All that a call needs to know
    is its own, so that several threads may apply one operator at once.

    Parameters
    ----------
    plan : Plan
    tiling : Tiling
    workers : sequence of Worker
        The tiles.
    x : Tensor
        On the base device.
    record_start : function
        Returns the event at which all transfers may start, recorded on the stream it is given.

    Raises
    ------
    CannotBeWritten
        If autograd follows a result, or they are of several dtypes.
    """
    execution = _Execution(plan, tiling, workers, x, record_start)
    try:
        for number, action in enumerate(plan.actions):
            execution.carry_out(number, action)
    except BaseException:
        execution.synchronize()
        raise
    return execution.join()


@dataclass(frozen=True)
class _Lane:
    """The streams between the base and one device."""

    here: DeviceStreams
    there: DeviceStreams


class _Execution:
    """One application of a plan.

    The memory of a tensor belongs to the stream on which it was allocated, and is used again as
    soon as the host lets go of it, by what comes next on that stream. So a tensor is dropped when
    that stream has been told to wait for all that use it, and no sooner.
    """

    def __init__(
        self,
        plan: Plan,
        tiling: Tiling,
        workers: Sequence[Worker],
        x: Tensor,
        record_start: Callable[[object], Event],
    ) -> None:
        self.plan, self.tiling, self.workers = plan, tiling, workers
        self.base = streams_on(plan.base, workers[0].base)
        self.inputs = tiling.inputs(x)
        self.lanes: dict[torch.device, _Lane] = {}
        self.tensors: dict[int, Tensor] = {}
        self.done: dict[int, Event | None] = {}
        self.y: Tensor | None = None
        self.outputs: list[Tensor] = []
        self.slots: list[Tensor] = []
        self.start = record_start(self.base.compute)
        self.allocated = self.start

    def carry_out(self, number: int, action: Action) -> None:
        if action.kind is Kind.SEND:
            self.send(number, action)
        elif action.kind is Kind.COLLECT:
            self.collect(number, action)
        elif action.kind is Kind.ADD:
            self.add(number, action)
        elif action.device == self.plan.base:
            self.compute_here(action)
        else:
            self.compute(number, action)

    def send(self, number: int, action: Action) -> None:
        lane = self.lane(action)
        self.wait(lane.there.incoming, action)
        transfer = send(self.inputs[action.tile], lane.here, lane.there, ready=self.start)
        self.tensors[number], self.done[number] = transfer.copy, transfer.arrived

    def compute(self, number: int, action: Action) -> None:
        there = self.lane(action).there
        self.wait(there.compute, action)
        with there.backend.using(there.compute):
            result = self.workers[action.tile].apply(self.tensors[cast(int, action.uses)])
            self.check(result)
            if action.onto is not None:
                result = self.summed(action.onto, result)
        self.tensors[number], self.done[number] = result, recorded(there)
        self.allocate(result)

    def summed(self, onto: int, result: Tensor) -> Tensor:
        total = self.tensors.pop(onto)
        first = self.plan.actions[onto].onto is None
        # The first result may be the input or a weight.
        return total + result if first else total.add_(result)

    def collect(self, number: int, action: Action) -> None:
        lane = self.lane(action)
        uses = cast(int, action.uses)
        self.wait(lane.here.incoming, action)
        result, place = self.tensors[uses], self.place(action)
        transfer = send(
            result,
            lane.there,
            lane.here,
            ready=self.done[uses],
            into=place,
            vacant=self.allocated,
        )
        self.done[number] = transfer.arrived

    def place(self, action: Action) -> Tensor:
        """Return where to put what is collected: in the output, or in a buffer."""
        output = self.outputs[action.tile]
        if action.slot is None:
            return output
        return self.slots[action.slot][: output.numel()].view(output.shape)

    def add(self, number: int, action: Action) -> None:
        self.wait(self.base.compute, action)
        with self.base.backend.using(self.base.compute):
            self.outputs[action.tile].add_(self.place(action))
        self.done[number] = recorded(self.base)

    def compute_here(self, action: Action) -> None:
        with self.base.backend.using(self.base.compute):
            result = self.workers[action.tile].apply(self.inputs[action.tile])
            self.check(result)
            self.allocate(result)
            place = self.outputs[action.tile]
            if action.adds:
                place.add_(result)
            else:
                place.copy_(result)

    def check(self, result: Tensor) -> None:
        if result.requires_grad or (self.y is not None and self.y.dtype != result.dtype):
            raise CannotBeWritten

    def allocate(self, result: Tensor) -> None:
        """Allocate the output, and the buffers of what is added to it, once there is a result."""
        if self.y is not None:
            return
        with self.base.backend.using(self.base.compute):
            ...

    def wait(self, stream: object, action: Action) -> None: ...

"""Executing a plan: one thread issues the work of all devices to their streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import torch
from torch import Tensor

from linops_split.siblings import Work

from .._devices._stream_pool import follow_caller, let_caller_follow, streams_on
from .._devices._streams import Event, HostBackend, HostEvent, Stream, backend_of, recorded_on
from .._devices._transfer import Transfer, issue
from ._device_tiles import DeviceTiles
from ._output import StreamsBetween, WiderDtype, output_on
from ._plan import Action, Kind, Plan


def execute(
    plan: Plan,
    work: Work,
    where: DeviceTiles,
    record_start: Callable[[Stream], Event],
    watched: Callable[[Sequence[Action]], Iterable[Action]] = iter,
) -> Tensor | None:
    """Execute a plan and return the output; None if the parts return nothing.

    The result may be used on the current stream of the base device, or on the host if that is the
    base. All transfers start after the event that ``record_start`` records on the given stream.
    ``watched`` wraps the sequence of actions, for example in a progress bar. All state belongs to
    the call, so several threads may apply one operator at the same time.
    """
    dtype: torch.dtype | None = None
    while True:
        execution = _Execution(plan, work, where, record_start, dtype)
        try:
            for number, action in enumerate(watched(plan.actions)):
                execution.carry_out(number, action)
            return execution.joined()
        except BaseException as error:
            # Memory that is freed now may still be in use on any stream.
            execution.synchronize()
            if not isinstance(error, WiderDtype):
                raise
            dtype = error.dtype  # compute everything again for an output of this dtype


class _Execution:
    """One execution of a plan.

    The memory of a tensor belongs to the stream on which it was allocated. Once the host has freed
    it, later work on that stream reuses it. So a tensor is dropped only after that stream waits for
    all uses of it.
    """

    def __init__(
        self,
        plan: Plan,
        work: Work,
        where: DeviceTiles,
        record_start: Callable[[Stream], Event],
        dtype: torch.dtype | None,
    ) -> None:
        self.plan, self.work = plan, work
        self.lane_of, pairs = where.lanes, where.pairs
        self.base = streams_on(plan.base, where.base)
        self.lanes = [
            StreamsBetween(
                streams_on(plan.base, pair.base, pair.device.device),
                streams_on(pair.device.device, pair.device, plan.base),
            )
            for pair in pairs
        ]
        given = [(self.base, where.base)]
        given += [(lane.remote, p.device) for lane, p in zip(self.lanes, pairs, strict=True)]
        self.given = [streams for streams, spec in given if spec.compute_stream is not None]
        for streams in self.given:
            follow_caller(streams)
        with self.base.backend.using(self.base.compute):
            # Once for all parts, because copies of bytes lose lazy conjugation and negation.
            tensors = [tensor.resolve_conj().resolve_neg() for tensor in work.tensors]
        self.reads = [reads.views(x) for reads, x in zip(work.reads, tensors, strict=True)]
        self.output = output_on(self.base)(plan, self.base, work, dtype)
        self.results: dict[int, Tensor] = {}
        self.transfers: dict[int, Transfer] = {}
        self.done: dict[int, Event] = {}
        self.start = record_start(self.base.compute)

    def carry_out(self, number: int, action: Action) -> None:
        """Issue an action on its stream."""
        if action.kind is Kind.COMPUTE and action.device == self.plan.base:
            self.compute_on_base(action)
        else:
            steps = {
                Kind.SEND: self.send,
                Kind.COMPUTE: self.compute_on_lane,
                Kind.COLLECT: self.collect,
                Kind.ADD: self.add,
            }
            steps[action.kind](number, action)

    def send(self, number: int, action: Action) -> None:
        lane = self.lane(action)
        self.prepare(lane.remote.incoming, action)
        transfer = issue(
            self.reads[action.operand][action.tile], lane.local, lane.remote, ready=self.start
        )
        self.transfers[number] = transfer
        self.note(number, transfer.arrived)

    def compute_on_lane(self, number: int, action: Action) -> None:
        streams = self.lane(action).remote
        self.prepare(streams.compute, action)
        operands = [self.transfers[source].copy for source in action.uses]
        with streams.backend.using(streams.compute):
            result = self.work.compute(action.tile, operands)
            if result is not None:
                result = self.output.admitted(action.tile, result)
                keep_view_of(operands, result)
                if action.onto is not None:
                    result = self.summed(action.onto, result)
                self.results[number] = result
        self.note(number, recorded_on(streams.compute, streams.backend))

    def summed(self, onto: int, result: Tensor) -> Tensor:
        total = self.results.pop(onto)
        if self.plan.actions[onto].onto is None:
            return total + result  # out of place, because the first may be the input or a weight
        return total.add_(result)

    def collect(self, number: int, action: Action) -> None:
        lane, (uses,) = self.lane(action), action.uses
        self.prepare_base(lane.local.incoming, action)
        result, ready = self.results[uses], self.done.get(uses)
        transfer = self.output.collect(result, action, lane, ready)
        self.transfers[number] = transfer
        self.note(number, transfer.arrived)

    def add(self, number: int, action: Action) -> None:
        self.prepare_base(self.base.compute, action)
        self.output.add(action)
        self.note(number, recorded_on(self.base.compute, self.base.backend))

    def compute_on_base(self, action: Action) -> None:
        operands = [views[action.tile] for views in self.reads]
        with self.base.backend.using(self.base.compute):
            result = self.work.compute(action.tile, operands)
            if result is not None:
                result = self.output.admitted(action.tile, result)
        if result is not None:
            after = [self.done[n] for n in action.after if n in self.done]
            self.output.take(result, action, after)

    def lane(self, action: Action) -> StreamsBetween:
        return self.lanes[cast(int, self.lane_of[action.tile])]

    def note(self, number: int, event: Event | None) -> None:
        """Note the event after which an action is done. Actions of a host are done already."""
        if event is not None and not isinstance(event, HostEvent):
            self.done[number] = event

    def prepare(self, stream: Stream, action: Action) -> None:
        """Let the stream wait for what the action needs, then drop tensors nobody needs."""
        for number in action.after:
            if number in self.done:
                stream.wait_event(self.done[number])
        for number in action.drops:
            self.results.pop(number, None)
            self.transfers.pop(number, None)

    def prepare_base(self, stream: Stream, action: Action) -> None:
        """Let a stream of the base device wait. A host continues, and waits only for arrivals."""
        if not isinstance(self.base.backend, HostBackend):
            self.prepare(stream, action)

    def joined(self) -> Tensor | None:
        """Return the output; the current stream of the base device waits for it.

        Also, no stream may reuse memory that is dropped now before all its users here are done. The
        base device waits for what it sent, because a part need not return a result to it.
        """
        if self.output.y is not None:
            self.output.finish()
        for number, event in self.done.items():
            action = self.plan.actions[number]
            if action.kind is Kind.COMPUTE:
                self.lane(action).remote.incoming.wait_event(event)
            elif action.kind is Kind.COLLECT:
                self.lane(action).remote.compute.wait_event(event)
            if action.kind in (Kind.SEND, Kind.COLLECT):
                self.base.compute.wait_event(event)
        with self.base.backend.using(self.base.compute):
            y = self.output.whole()
        for streams in self.given:
            let_caller_follow(streams, y if streams is self.base else None)
        return y

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for lane in self.lanes:
            for streams in (lane.local, lane.remote):
                streams.incoming.synchronize()
                streams.outgoing.synchronize()
                streams.compute.synchronize()
        self.base.compute.synchronize()


def keep_view_of(operands: Sequence[Tensor], result: Tensor) -> None:
    """Keep the memory of a result that is a view of an operand of its part.

    The memory belongs to the stream for incoming copies, and is used longer than the operand. The
    compute stream, which is current, waits for all other users before the result is dropped.
    """
    storage = result.untyped_storage()._cdata
    if any(operand.untyped_storage()._cdata == storage for operand in operands):
        backend = backend_of(result.device)
        backend.record_use(result, backend.current_stream(result.device))

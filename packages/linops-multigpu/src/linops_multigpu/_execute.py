"""Carrying out a plan: what one thread issues to the streams of all devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from torch import Tensor

from linops_split import Tiling

from ._crew import Crew
from ._output import Lane, Output, output_on
from ._plan import Action, Kind, Plan
from ._stream_pool import follow_caller, let_caller_follow, streams_on
from ._streams import Event, HostBackend, HostEvent, Stream, recorded_on
from ._transfer import Transfer, issue


class CannotBeWritten(Exception):
    """A result does not go into an output like those before: its dtype, or autograd follows it."""


def execute(
    plan: Plan,
    tiling: Tiling,
    crew: Crew,
    x: Tensor,
    record_start: Callable[[Stream], Event],
    watched: Callable[[Sequence[Action]], Iterable[Action]] = iter,
) -> Tensor:
    """Return what the tiles make of ``x``, as the plan says.

    The result may be used on the current stream of the base device, or by the host if that is it.
    What a call has to remember is its own, so that several threads may apply one operator at once.

    Parameters
    ----------
    plan : Plan
    tiling : Tiling
    crew : Crew
        The tiles of the tiling.
    x : Tensor
        On the base device.
    record_start : function
        Returns an event, recorded on the stream it is given: all transfers start at it.
    watched : function, optional
        Returns the actions as they are to be issued, for somebody who wants to see each.

    Raises
    ------
    CannotBeWritten
        If autograd follows a result, or they are of several dtypes.
    ValueError
        If a tile returns another shape than what it writes has.
    """
    execution = _Execution(plan, tiling, crew, x, record_start)
    try:
        for number, action in enumerate(watched(plan.actions)):
            execution.carry_out(number, action)
        return execution.joined()
    except BaseException:
        # What is dropped now may still be in use anywhere.
        execution.synchronize()
        raise


class _Execution:
    """One application of a plan.

    The memory of a tensor belongs to the stream on which it was allocated, and is used again, once
    the host has let go of it, by what comes next on that stream. So a tensor is dropped when that
    stream has been told to wait for all that use it.
    """

    def __init__(
        self,
        plan: Plan,
        tiling: Tiling,
        crew: Crew,
        x: Tensor,
        record_start: Callable[[Stream], Event],
    ) -> None:
        self.plan, self.tiling, self.workers = plan, tiling, crew.workers
        self.base = streams_on(plan.base, crew.base)
        self.lanes = [
            Lane(
                streams_on(plan.base, place.base, place.device.device),
                streams_on(place.device.device, place.device, plan.base),
            )
            for place in crew.places
        ]
        given = [(self.base, crew.base)]
        given += [(lane.there, p.device) for lane, p in zip(self.lanes, crew.places, strict=True)]
        self.given = [streams for streams, spec in given if spec.compute_stream is not None]
        for streams in self.given:
            follow_caller(streams)
        with self.base.backend.using(self.base.compute):
            # Once for all tiles: what copies bytes knows nothing of signs.
            self.inputs = tiling.inputs(x.resolve_conj().resolve_neg())
        self.output: Output | None = None
        self.results: dict[int, Tensor] = {}
        self.transfers: dict[int, Transfer] = {}
        self.done: dict[int, Event] = {}
        self.start = record_start(self.base.compute)

    def carry_out(self, number: int, action: Action) -> None:
        """Issue an action to its stream."""
        if action.kind is Kind.SEND:
            self.send(number, action)
        elif action.kind is Kind.COLLECT:
            self.collect(number, action)
        elif action.kind is Kind.ADD:
            self.add(number, action)
        elif action.device == self.plan.base:
            self.compute_here(action)
        else:
            self.compute_there(number, action)

    def send(self, number: int, action: Action) -> None:
        lane = self.lane(action)
        self.prepare(lane.there.incoming, action)
        transfer = issue(self.inputs[action.tile], lane.here, lane.there, ready=self.start)
        self.transfers[number] = transfer
        self.note(number, transfer.arrived)

    def compute_there(self, number: int, action: Action) -> None:
        there = self.lane(action).there
        self.prepare(there.compute, action)
        x = self.transfers[cast(int, action.uses)].copy
        with there.backend.using(there.compute):
            result = self.workers[action.tile].apply(x)
            self.admit(result, action)
            if result.untyped_storage()._cdata == x.untyped_storage()._cdata:
                # Its memory belongs to the stream for what comes in, and outlives the input here.
                for user in (there.compute, there.outgoing):
                    there.backend.record_use(result, user)
            if action.onto is not None:
                result = self.summed(action.onto, result)
        self.results[number] = result
        self.note(number, recorded_on(there.compute, there.backend))

    def summed(self, onto: int, result: Tensor) -> Tensor:
        total = self.results.pop(onto)
        if self.plan.actions[onto].onto is None:
            return total + result  # the first may be the input or a weight
        return total.add_(result)

    def collect(self, number: int, action: Action) -> None:
        lane, uses = self.lane(action), cast(int, action.uses)
        self.prepare_base(lane.here.incoming, action)
        assert self.output is not None
        result, ready = self.results[uses], self.done.get(uses)
        transfer = self.output.collect(result, action, lane, ready)
        self.transfers[number] = transfer
        self.note(number, transfer.arrived)

    def add(self, number: int, action: Action) -> None:
        self.prepare_base(self.base.compute, action)
        assert self.output is not None
        self.output.add(action)
        self.note(number, recorded_on(self.base.compute, self.base.backend))

    def compute_here(self, action: Action) -> None:
        with self.base.backend.using(self.base.compute):
            result = self.workers[action.tile].apply(self.inputs[action.tile])
            output = self.admit(result, action)
        output.take(result, action, [self.done[n] for n in action.after if n in self.done])

    def lane(self, action: Action) -> Lane:
        return self.lanes[cast(int, self.workers[action.tile].place)]

    def note(self, number: int, event: Event | None) -> None:
        """Remember when an action is done, if it is not already: what a host did is."""
        if event is not None and not isinstance(event, HostEvent):
            self.done[number] = event

    def prepare(self, stream: Stream, action: Action) -> None:
        """Let the stream wait for what the action needs, and drop what nobody needs then."""
        for number in action.after:
            if number in self.done:
                stream.wait_event(self.done[number])
        for number in action.drops:
            self.results.pop(number, None)
            self.transfers.pop(number, None)

    def prepare_base(self, stream: Stream, action: Action) -> None:
        """Let a stream of the base device wait; a host is to go on, and waits for what arrives."""
        if not isinstance(self.base.backend, HostBackend):
            self.prepare(stream, action)

    def admit(self, result: Tensor, action: Action) -> Output:
        """Return the output, made for the first result; refuse one that does not go into it."""
        if not self.tiling.may_add(result):
            raise CannotBeWritten
        if self.output is None:
            self.output = output_on(self.base)(self.plan, self.tiling, self.base, result)
        if result.requires_grad or self.output.y.dtype != result.dtype:
            raise CannotBeWritten
        shape = self.output.places[action.tile].shape
        if result.shape != shape:
            raise ValueError(
                f"{self.tiling.parts[action.tile].linop.signature}: a tile must return shape "
                f"{tuple(shape)}, got {tuple(result.shape)}"
            )
        return self.output

    def joined(self) -> Tensor:
        """Return the output, for which the caller's stream on the base device waits.

        Nor may a stream use again what is dropped now before all is done that uses it here.
        """
        assert self.output is not None
        self.output.finish()
        for number, event in self.done.items():
            action = self.plan.actions[number]
            if action.kind is Kind.COMPUTE:
                self.lane(action).there.incoming.wait_event(event)
            elif action.kind is Kind.COLLECT:
                self.lane(action).there.compute.wait_event(event)
                self.base.compute.wait_event(event)
        for streams in self.given:
            let_caller_follow(streams, self.output.y if streams is self.base else None)
        return self.output.y

    def synchronize(self) -> None:
        """Let the host wait for all streams."""
        for lane in self.lanes:
            for streams in (lane.here, lane.there):
                streams.incoming.synchronize()
                streams.outgoing.synchronize()
                streams.compute.synchronize()
        self.base.compute.synchronize()

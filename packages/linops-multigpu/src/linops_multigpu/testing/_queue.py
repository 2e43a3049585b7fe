"""Streams that do later what they are given now, and events between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ._clock import Action, Actor, Clock, learn
from ._source import calling_line

if TYPE_CHECKING:
    from ._machine import Machine


class Marker:
    """A point in the work of a stream, and what has happened when it is reached."""

    def __init__(self, clock: Clock) -> None:
        self.clock = dict(clock)
        self.reached = False


@dataclass
class Task:
    """What a stream is to do: compute, reach a marker, or wait for one of another stream."""

    run: Callable[[], object] | None = None
    reaches: Marker | None = None
    awaits: Marker | None = None


class SimStream:
    """A queue of work on a simulated device.

    Made by :meth:`World.new_stream`.
    """

    def __init__(self, machine: Machine, device: torch.device, actor: Actor) -> None:
        self.device = device
        self.machine = machine
        self.actor = actor
        self.tasks: deque[Task] = deque()

    def __repr__(self) -> str:
        return f"<{self.actor.name}>"

    def wait_event(self, event: SimEvent) -> None:
        """Let what it is given from now on wait for ``event``; the host goes on.

        A wait for an event that was not recorded waits for nothing, as on a real device; here it
        counts as a race.
        """
        self.machine.check_own(event)
        with self.machine.entered():
            marker = event.marker
            if marker is None:
                self.machine.checker.report(
                    f"{self.actor.name} must wait for an event that was recorded before, got one "
                    f"that was not ({calling_line()})"
                )
                return
            learn(self.actor.clock, marker.clock)
            self.machine.trace.wait(self, marker)
            self.machine.scheduler.give(self, Task(awaits=marker))

    def wait_stream(self, other: SimStream) -> None:
        """Let what it is given from now on wait for all that ``other`` was given so far."""
        self.wait_event(other.record_event())

    def record_event(self) -> SimEvent:
        """Return a new event that was recorded on it."""
        event = SimEvent(self.machine)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let the host wait for all that it was given."""
        self.record_event().synchronize()

    def can_go_on(self) -> bool:
        """Whether it has something to do and need not wait."""
        if not self.tasks:
            return False
        awaited = self.tasks[0].awaits
        return awaited is None or awaited.reached

    def go_on(self) -> None:
        """Do the next task."""
        task = self.tasks.popleft()
        if task.run is not None:
            task.run()
        if task.reaches is not None:
            task.reaches.reached = True


class SimEvent:
    """A point in the work of a stream, to wait for.

    Made by :meth:`World.new_event`. A wait is for the last record before it.
    """

    def __init__(self, machine: Machine) -> None:
        self.marker: Marker | None = None
        self.machine = machine

    def record(self, stream: SimStream) -> None:
        """Be the point at which ``stream`` has done all that it was given so far."""
        self.machine.check_own(stream)
        with self.machine.entered():
            self.machine.checker.begin(stream.actor, Action("record", calling_line()))
            self.marker = Marker(stream.actor.clock)
            self.machine.trace.record(stream, self.marker)
            self.machine.scheduler.give(stream, Task(reaches=self.marker))

    def synchronize(self) -> None:
        """Let the host wait for it; for nothing if it was not recorded."""
        with self.machine.entered():
            if self.marker is not None:
                self.machine.scheduler.run_until(self.marker)
                learn(self.machine.checker.host.clock, self.marker.clock)
                self.machine.trace.host_wait(self.marker)

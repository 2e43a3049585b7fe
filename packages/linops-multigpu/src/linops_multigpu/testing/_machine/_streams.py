"""Simulated streams, which run their work later, and events between them."""

from __future__ import annotations

import math
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from .._device import outside_of_modes
from .._order import Actor, Checker, Clock, calling_line, learn

SCHEDULES = ("eager", "oldest", "newest", "alternating", "random")
"""The names of all schedules, which decide the order of work that the program leaves open."""


@dataclass(eq=False)
class Task:
    """A task of a stream: work, a wait for another task, or a point that others wait for."""

    run: Callable[[], object] | None = None
    awaits: Task | None = None
    clock: Clock = field(default_factory=dict)
    """What has happened before this task, if others wait for it."""
    engine: str = ""
    """The engine that is busy, if the task takes time."""
    name: str = ""
    duration: float = 0.0
    done: bool = False

    @property
    def is_ready(self) -> bool:
        return self.awaits is None or self.awaits.done


class SimStream:
    """A queue of work on a simulated device, made by :meth:`World.new_stream`."""

    def __init__(self, scheduler: Scheduler, device: torch.device, actor: Actor) -> None:
        self.device = device
        self.scheduler = scheduler
        self.actor = actor
        self.tasks: deque[Task] = deque()

    def __repr__(self) -> str:
        return f"<{self.actor.name}>"

    def wait_event(self, event: SimEvent) -> None:
        """Make later work on this stream wait for ``event``; the host does not wait.

        As on a real device, an event that was not recorded is not waited for; this counts as a
        race.
        """
        self.scheduler.check_own(event)
        with self.scheduler.entered():
            if event.point is None:
                self.scheduler.checker.races.append(
                    f"{self.actor.name} must wait for an event that was recorded before, got one "
                    f"that was not ({calling_line()})"
                )
                return
            learn(self.actor.clock, event.point.clock)
            self.scheduler.give(self, Task(awaits=event.point))

    def wait_stream(self, other: SimStream) -> None:
        """Make later work on this stream wait for all work so far on ``other``."""
        self.wait_event(other.record_event())

    def record_event(self) -> SimEvent:
        """Return a new event recorded on this stream."""
        event = SimEvent(self.scheduler)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let the host wait for all work of the stream so far."""
        self.record_event().synchronize()


class SimEvent:
    """A point in a stream, made by :meth:`World.new_event`. Waits are for the last record."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.point: Task | None = None
        self.scheduler = scheduler

    def record(self, stream: SimStream) -> None:
        """Mark the point at which ``stream`` has finished its work so far."""
        self.scheduler.check_own(stream)
        with self.scheduler.entered():
            self.scheduler.checker.begin(stream.actor, "record")
            self.point = Task(clock=dict(stream.actor.clock))
            self.scheduler.give(stream, self.point)

    def synchronize(self) -> None:
        """Let the host wait for the event; if it was not recorded, there is nothing to wait for."""
        if self.point is not None:
            self.scheduler.wait_for(self.point)


class Scheduler:
    """Holds the work of all streams, and runs it in the order of a schedule."""

    def __init__(self, schedule: str, seed: int) -> None:
        if schedule not in SCHEDULES:
            raise ValueError(
                f"simulated: schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r}"
            )
        self.checker = Checker()
        self.streams: list[SimStream] = []
        # In the order in which the host issued them; the waits of the host have the stream None.
        self.given: list[tuple[SimStream | None, Task]] = []
        self._schedule, self._random, self._last = schedule, random.Random(seed), -1
        # Work for the next thread that enters; it may be added anywhere, also in finalizers.
        self.left: deque[Callable[[], None]] = deque()
        self._lock = threading.RLock()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Lock out other threads inside the block; pending work is done first."""
        with self._lock:
            while self.left:
                self.left.popleft()()
            yield

    def check_own(self, thing: SimStream | SimEvent) -> None:
        """Raise if a stream or event belongs to another machine, whose clocks do not match."""
        if thing.scheduler is not self:
            raise ValueError(
                "simulated: streams and events must be of one machine, got one of another machine"
            )

    def new_stream(self, device: torch.device) -> SimStream:
        """Return a new stream."""
        with self.entered():
            actor = self.checker.new_actor(f"stream {len(self.streams)} of {device}")
            self.streams.append(SimStream(self, device, actor))
            return self.streams[-1]

    def give(self, stream: SimStream, task: Task) -> None:
        """Give a task to ``stream``, which runs it in its turn."""
        self.given.append((stream, task))
        stream.tasks.append(task)
        n_steps = self._n_steps()
        while n_steps > 0 and self._step():
            n_steps -= 1

    def _n_steps(self) -> float:
        """Return how many tasks to run, at most, after one was given."""
        if self._schedule == "random":
            return self._random.randrange(3)
        return math.inf if self._schedule == "eager" else 0

    def _pick(self, streams: Sequence[int]) -> int:
        """Choose one of the streams that can run, given as ascending numbers."""
        if self._schedule == "random":
            return self._random.choice(streams)
        if self._schedule == "alternating":
            self._last = next((stream for stream in streams if stream > self._last), streams[0])
            return self._last
        return streams[-1 if self._schedule == "newest" else 0]

    def wait_for(self, point: Task) -> None:
        """Let the host wait for a point in the work of a stream."""
        with self.entered():
            self._run_until(point)
            learn(self.checker.host.clock, point.clock)
            self.given.append((None, Task(awaits=point)))

    def finish(self, stream: SimStream) -> None:
        """Run all work of ``stream``, without the host learning that it is done."""
        point = Task()
        stream.tasks.append(point)
        self._run_until(point)

    def _run_until(self, point: Task) -> None:
        while not point.done:
            if not self._step():
                raise RuntimeError("simulated: some stream must be able to go on, got none")

    def _step(self) -> bool:
        """Run one task, if one is ready."""
        ready = [
            n for n, stream in enumerate(self.streams) if stream.tasks and stream.tasks[0].is_ready
        ]
        if not ready:
            return False
        task = self.streams[self._pick(ready)].tasks.popleft()
        run, task.run = task.run, None
        if run is not None:
            # In inference mode every tensor may be written to, and autograd does not follow.
            with outside_of_modes(), torch.inference_mode():
                run()
        task.done = True
        return True

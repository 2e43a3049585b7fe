"""How long a program takes on a machine that it has not got: a simulation by discrete events.

What was given to the streams is kept in the order in which the host gave it. Each piece of work
takes its time on one engine, such as the compute units of a device or the link from one to
another; an engine does one thing at a time, a stream too, and both in the order in which the work
is ready. The host takes no time, except to wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from ._queue import Marker, SimStream


class Interval(NamedTuple):
    """A piece of work on a timeline, in seconds."""

    engine: str
    name: str
    start: float
    end: float


@dataclass(frozen=True)
class _Entry:
    """Work, a marker to reach or one to wait for.

    ``n_waits`` is how often the host had waited before it gave this to a stream.
    """

    n_waits: int
    engine: str = ""
    name: str = ""
    duration: float = 0.0
    number: int = 0
    reaches: Marker | None = None
    awaits: Marker | None = None


class Trace:
    """All that was given to the streams, in the order in which it was given."""

    def __init__(self) -> None:
        self._queues: dict[SimStream, list[_Entry]] = {}
        self._host_waits: list[Marker] = []
        self._recorded: set[Marker] = set()
        self._n_works = 0

    def work(self, stream: SimStream, engine: str, name: str, duration: float) -> None:
        """Note work that takes ``duration`` seconds of an engine."""
        self._n_works += 1
        n_waits = len(self._host_waits)
        self._add(stream, _Entry(n_waits, engine, name, duration, self._n_works))

    def record(self, stream: SimStream, marker: Marker) -> None:
        """Note that ``stream`` reaches a marker."""
        self._recorded.add(marker)
        self._add(stream, _Entry(len(self._host_waits), reaches=marker))

    def wait(self, stream: SimStream, marker: Marker) -> None:
        """Note that ``stream`` waits for a marker."""
        if marker in self._recorded:  # otherwise it was reached before time started
            self._add(stream, _Entry(len(self._host_waits), awaits=marker))

    def host_wait(self, marker: Marker) -> None:
        """Note that the host waits for a marker, and gives nothing before."""
        if marker in self._recorded:
            self._host_waits.append(marker)

    def timeline(self) -> list[Interval]:
        """Return all work with its time, by when it starts."""
        return _Simulation(self._queues, self._host_waits).run()

    def _add(self, stream: SimStream, entry: _Entry) -> None:
        self._queues.setdefault(stream, []).append(entry)


class _Simulation:
    """The machine at work, from one start of work to the next."""

    def __init__(self, queues: dict[SimStream, list[_Entry]], host_waits: list[Marker]) -> None:
        self._queues = [(stream, deque(entries)) for stream, entries in queues.items()]
        self._host_waits = host_waits
        self._host_times = [0.0]  # when the host had waited so often
        self._stream_times = dict.fromkeys(queues, 0.0)
        self._engine_times: dict[str, float] = {}
        self._reached: dict[Marker, float] = {}
        self._timeline: list[Interval] = []

    def run(self) -> list[Interval]:
        while self._pass_markers():
            self._start_next()
        return self._timeline

    def _pass_markers(self) -> bool:
        """Let every stream get to its next work, or to where it waits; say whether any has some."""
        stuck = False
        while not stuck:
            stuck = True
            self._let_host_go_on()
            for stream, queue in self._queues:
                while queue and self._passes(stream, queue[0]):
                    queue.popleft()
                    stuck = False
        return any(queue for _, queue in self._queues)

    def _let_host_go_on(self) -> None:
        for marker in self._host_waits[len(self._host_times) - 1 :]:
            if marker not in self._reached:
                return
            self._host_times.append(max(self._host_times[-1], self._reached[marker]))

    def _is_given(self, entry: _Entry) -> bool:
        return entry.n_waits < len(self._host_times)

    def _passes(self, stream: SimStream, entry: _Entry) -> bool:
        """Pass a marker, if it is one and there is nothing to wait for."""
        if not self._is_given(entry) or (entry.reaches is None and entry.awaits is None):
            return False
        time = max(self._stream_times[stream], self._host_times[entry.n_waits])
        if entry.awaits is not None:
            if entry.awaits not in self._reached:
                return False
            time = max(time, self._reached[entry.awaits])
        elif entry.reaches is not None:
            self._reached[entry.reaches] = time
        self._stream_times[stream] = time
        return True

    def _start_next(self) -> None:
        """Do the work that can start first; of several the one that was given first."""
        ready = [
            (self._start_of(stream, queue[0]), queue[0].number, position)
            for position, (stream, queue) in enumerate(self._queues)
            if queue and queue[0].number and self._is_given(queue[0])
        ]
        start, _, position = min(ready)
        stream, queue = self._queues[position]
        work = queue.popleft()
        end = start + work.duration
        self._stream_times[stream] = self._engine_times[work.engine] = end
        self._timeline.append(Interval(work.engine, work.name, start, end))

    def _start_of(self, stream: SimStream, work: _Entry) -> float:
        return max(
            self._stream_times[stream],
            self._host_times[work.n_waits],
            self._engine_times.get(work.engine, 0.0),
        )


def makespan(timeline: list[Interval]) -> float:
    """Return when the last work ends, in seconds."""
    return max((interval.end for interval in timeline), default=0.0)


def busiest(timeline: list[Interval]) -> tuple[str, float]:
    """Return the engine that works longest, and how long; of none the name is empty."""
    busy: dict[str, float] = {}
    for interval in timeline:
        busy[interval.engine] = busy.get(interval.engine, 0.0) + interval.end - interval.start
    return max(busy.items(), key=itemgetter(1), default=("", 0.0))

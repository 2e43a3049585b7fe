"""How long a program takes on a machine that it has not got: a simulation by discrete events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ._streams import SimStream, Task


class Interval(NamedTuple):
    """A piece of work on a timeline, in seconds."""

    engine: str
    name: str
    start: float
    end: float


def timeline(given: Sequence[tuple[SimStream | None, Task]]) -> list[Interval]:
    """Return all work with its time, by when it starts.

    Each piece of work takes its time on one engine, such as the compute units of a device or the
    link from one to another. An engine does one thing at a time, a stream too, and both in the
    order in which the work is ready. The host (the stream None) takes no time, except to wait.
    """
    before = _prerequisites(given)
    followers: dict[Task, list[Task]] = {task: [] for task in before}
    for task, others in before.items():
        for other in others:
            followers[other].append(task)
    numbers = {task: number for number, task in enumerate(before)}
    ready_times = dict.fromkeys(before, 0.0)
    engine_times: dict[str, float] = {}

    def start_of(task: Task) -> float:
        return max(ready_times[task], engine_times.get(task.engine, 0.0))

    found = []
    ready = {task for task, others in before.items() if not others}
    while ready:
        task = min(ready, key=lambda task: (start_of(task), numbers[task]))
        ready.remove(task)
        start = start_of(task)
        end = start + task.duration
        if task.engine:
            engine_times[task.engine] = end
            found.append(Interval(task.engine, task.name, start, end))
        for follower in followers[task]:
            ready_times[follower] = max(ready_times[follower], end)
            before[follower].remove(task)
            if not before[follower]:
                ready.add(follower)
    return found


def _prerequisites(given: Sequence[tuple[SimStream | None, Task]]) -> dict[Task, set[Task]]:
    """Return what each task comes after; what was done before time started does not count."""
    found: dict[Task, set[Task]] = {}
    last: dict[SimStream | None, Task] = {}
    for stream, task in given:
        others = {last.get(stream), last.get(None), task.awaits}
        found[task] = {other for other in others if other in found}
        last[stream] = task
    return found

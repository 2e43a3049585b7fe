"""The time of a program on a simulated machine, by discrete events."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

from linops_multigpu._execution._timeline import Span, Timeline

from ._streams import SimStream, Task


def timeline(given: Sequence[tuple[SimStream | None, Task]]) -> Timeline:
    """Return all work with its times, ordered by start; the kind of a span is the name of the work.

    An engine, such as the link from one device to another, does one thing at a time. A
    stream does, too, in the order in which its work is ready. The host (the stream None) only
    waits.
    """
    before: dict[Task, list[Task]] = {}
    last: dict[SimStream | None, Task] = {}
    for stream, task in given:
        others = last.get(stream), last.get(None), task.awaits
        # Work done before the clock was started does not count.
        before[task] = [other for other in others if other is not None and other in before]
        last[stream] = task
    numbers = {task: number for number, task in enumerate(before)}
    ends: dict[Task, float] = {}
    engine_times: dict[str, float] = {}

    def start_of(task: Task) -> float:
        free = engine_times.get(task.engine, 0.0)
        return max([free, *(ends[other] for other in before[task])])

    spans, ready = list[Span](), set[Task]()
    sorter = TopologicalSorter(before)
    sorter.prepare()
    while sorter.is_active():
        ready.update(sorter.get_ready())
        task = min(ready, key=lambda task: (start_of(task), numbers[task]))
        ready.remove(task)
        start = start_of(task)
        ends[task] = start + task.duration
        sorter.done(task)
        if task.engine:
            engine_times[task.engine] = ends[task]
            spans.append(Span(task.engine, task.name, "", start, ends[task]))
    return Timeline(tuple(spans))

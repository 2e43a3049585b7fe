"""Timings of several ways to do one job, taken in turns, as ratios to the first.

Machines are shared and noisy: a slow minute then slows all ways alike, and the ratio within a
round says more than any time by itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from results import record


@dataclass(frozen=True)
class Timing:
    """Of one way to do the job."""

    seconds: float
    """Median over the rounds."""
    ratio: float
    """Median over the rounds of the time over that of the first way in the same round."""
    low: float
    high: float
    """Smallest and largest of these ratios without the outermost tenths."""
    least: float
    """Ratio of the smallest times: what is left where nothing else ran on the machine."""


def interleaved(
    ways: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    number: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Return the timing of each way; in each round, after one to warm up, it runs ``number`` times.

    Work of microseconds needs many: a single call finds the caches as the other way left them.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for counted in [False] + [True] * rounds:
        for name, work in ways.items():
            start = clock()
            for _ in range(number):
                work()
            elapsed = clock() - start
            if counted:
                times[name].append(elapsed / number)
    base = next(iter(times.values()))
    timings = {}
    for name, own in times.items():
        ratios = sorted(a / b for a, b in zip(own, base, strict=True))
        tail = len(ratios) // 10
        timings[name] = Timing(
            statistics.median(own),
            statistics.median(ratios),
            ratios[tail],
            ratios[-1 - tail],
            min(own) / min(base),
        )
    return timings


def print_timings(
    title: str, timings: Mapping[str, Timing], targets: Mapping[str, float] | None = None
) -> None:
    """Print a table: time, ratio to the first way, and the spread of the ratio.

    ``targets`` are the ratios that were aimed at, for some of the ways.
    """
    first = next(iter(timings))
    print(f"\n{title}")
    for name, timing in timings.items():
        record(
            title,
            name,
            timing.ratio,
            "x",
            against="" if name == first else first,
            low=timing.low,
            high=timing.high,
            least=timing.least,
            seconds=timing.seconds,
            target=(targets or {}).get(name),
        )
        print(
            f"  {name:44} {timing.seconds * 1e3:10.3f} ms  {timing.ratio:6.2f}x "
            f"({timing.low:.2f} to {timing.high:.2f})"
        )

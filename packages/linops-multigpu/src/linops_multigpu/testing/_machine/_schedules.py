"""In which order the streams of a simulated machine do their work.

All that a program may rely on is the order within each stream and what events order between
them. A schedule is one of the orders that are left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

SCHEDULES = ("eager", "oldest", "newest", "alternating", "random")
"""The names of all schedules."""


class Schedule:
    """Says which stream does its next task, and when: at once, or when somebody waits for it."""

    def __init__(self, name: str, seed: int) -> None:
        if name not in SCHEDULES:
            raise ValueError(
                f"simulated: schedule must be one of {', '.join(SCHEDULES)}, got {name!r}"
            )
        self._name = name
        self._random = random.Random(seed)
        self._last = -1

    def n_steps(self) -> float:
        """Return how many tasks are done, if there are so many, after one was given."""
        if self._name == "random":
            return self._random.randrange(3)
        return math.inf if self._name == "eager" else 0

    def pick(self, streams: Sequence[int]) -> int:
        """Return one of the streams that have a task to do, given by number in ascending order."""
        if self._name == "random":
            return self._random.choice(streams)
        if self._name == "alternating":
            self._last = next((stream for stream in streams if stream > self._last), streams[0])
            return self._last
        return streams[-1 if self._name == "newest" else 0]

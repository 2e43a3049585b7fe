"""In which order the streams of a simulated machine get on with their work.

All that a program may rely on is the order within each stream and what events order between
them. A schedule is one of the orders that are left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

SCHEDULES = ("eager", "oldest", "newest", "alternating", "random")
"""The names of all schedules."""


class Schedule(Protocol):
    """Says which stream does its next task, and when."""

    def n_steps(self) -> int | None:
        """Return how many tasks are done after one was given; None for all that can be done."""

    def pick(self, streams: Sequence[int]) -> int:
        """Return one of the streams that have a task to do, given by number in ascending order."""


class _Eager:
    """Do at once what can be done."""

    def n_steps(self) -> int | None:
        return None

    def pick(self, streams: Sequence[int]) -> int:
        return streams[0]


class _Extreme:
    """Do nothing before somebody waits for it; then let one end of the streams run ahead."""

    def __init__(self, position: int) -> None:
        self._position = position

    def n_steps(self) -> int | None:
        return 0

    def pick(self, streams: Sequence[int]) -> int:
        return streams[self._position]


class _Alternating:
    """Do nothing before somebody waits for it; then let each stream do one task in turn."""

    def __init__(self) -> None:
        self._last = -1

    def n_steps(self) -> int | None:
        return 0

    def pick(self, streams: Sequence[int]) -> int:
        self._last = next((stream for stream in streams if stream > self._last), streams[0])
        return self._last


class _Random:
    """Do any number of tasks at any time, in any order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def n_steps(self) -> int | None:
        return self._random.randrange(3)

    def pick(self, streams: Sequence[int]) -> int:
        return self._random.choice(streams)


def schedule_named(name: str, seed: int) -> Schedule:
    """Return a new schedule.

    Parameters
    ----------
    name : str
        One of `SCHEDULES`. ``eager`` does what it can at once; of those that do nothing before
        somebody waits for it, ``oldest`` and ``newest`` let the oldest or newest stream run ahead,
        and ``alternating`` lets each do one task in turn; ``random`` does anything.
    seed : int
        Of ``random``.

    Raises
    ------
    ValueError
        If there is no such schedule.
    """
    match name:
        case "eager":
            return _Eager()
        case "oldest":
            return _Extreme(0)
        case "newest":
            return _Extreme(-1)
        case "alternating":
            return _Alternating()
        case "random":
            return _Random(seed)
    raise ValueError(f"simulated: schedule must be one of {', '.join(SCHEDULES)}, got {name!r}")

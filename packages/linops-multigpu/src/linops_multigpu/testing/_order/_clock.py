"""Vector clocks: who has done what, and who knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Clock: TypeAlias = dict[int, int]
"""By the number of an actor, how many of its actions have happened; none is zero."""


@dataclass(eq=False)
class Actor:
    """The host or a stream: its clock, and its actions in words, which are counted from one.

    One action is ordered before another if the clock with which the other was begun has its number.
    """

    number: int
    name: str
    clock: Clock = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)


def learn(clock: Clock, other: Clock) -> None:
    """Let ``clock`` know all that ``other`` knows."""
    for actor, time in other.items():
        clock[actor] = max(time, clock.get(actor, 0))

"""Who has done what, and who knows of it: vector clocks.

An actor is the host or a stream. What it does is numbered from one on; a clock says, for each
actor, up to which number everything has happened. One action is ordered before another if the
clock with which the other was begun has its number.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Clock: TypeAlias = dict[int, int]
"""The number of an actor, and of its last action that is known of; none is zero."""


def learn(clock: Clock, other: Clock) -> None:
    """Let ``clock`` know all that ``other`` knows."""
    for actor, time in other.items():
        if time > clock.get(actor, 0):
            clock[actor] = time


class Action(NamedTuple):
    """What an actor did, in words: the operation and the line of source that asked for it."""

    name: str
    line: str

    def __str__(self) -> str:
        return f"{self.name} ({self.line})"


class Actor:
    """The host or a stream, with the clock of what happens before what it does next.

    Parameters
    ----------
    number : int
        Of its own among all actors.
    name : str
    """

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.clock: Clock = {}
        self.actions: list[Action] = []

    def act(self, action: Action) -> int:
        """Begin something new, and return its number."""
        self.actions.append(action)
        self.clock[self.number] = len(self.actions)
        return len(self.actions)

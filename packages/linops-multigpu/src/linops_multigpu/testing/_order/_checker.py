"""The happens-before checker: every access to memory comes after those that it depends on.

It looks at the order that the program asks for, not at the one that a run happens to take. So it
finds the same races under every schedule.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from ._shadow import Bytes, Shadow, bytes_of

_PLUMBING = (
    str(Path(__file__).parents[1]),
    str(Path(torch.__file__).parent),
    contextlib.__file__,
    weakref.__file__,
    "<string>",
)

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


class RaceError(RuntimeError):
    """Two accesses to the same memory happen in an order that nothing decides."""


class Checker:
    """All actors, and the races between them."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.races: list[str] = []
        self.host = self.new_actor("the host")

    def new_actor(self, name: str) -> Actor:
        """Return an actor that knows nothing yet."""
        self.actors.append(Actor(len(self.actors), name))
        return self.actors[-1]

    def begin(self, actor: Actor, name: str, line: str | None = None) -> None:
        """Begin an action: the host asks for it, so it comes after what the host knows."""
        learn(actor.clock, self.host.clock)
        actor.actions.append(f"{name} ({line or calling_line()})")
        actor.clock[actor.number] = len(actor.actions)

    def access(
        self, actor: Actor, shadow: Shadow, tensor: Tensor, written: Sequence[Tensor]
    ) -> None:
        """Let the last action of ``actor`` read a tensor, or write it if it is among those."""
        writes = any(tensor is out for out in written)
        touched = bytes_of(tensor, shadow.address)
        self._compare(actor, shadow, touched, actor.clock, "write" if writes else "read")
        shadow.note(touched, actor.number, len(actor.actions), writes=writes)

    def free(self, actor: Actor, shadow: Shadow, clock: Clock) -> None:
        """Let the last action of ``actor`` free all memory, after what ``clock`` knows."""
        self._compare(actor, shadow, slice(None), clock, "free")

    def _compare(
        self, actor: Actor, shadow: Shadow, touched: Bytes, clock: Clock, verb: str
    ) -> None:
        found = shadow.conflict(touched, clock, writes=verb != "read")
        if found is not None:
            other = self.actors[found.actor]
            self.races.append(
                f"{shadow.place}: the {verb} of {found.nbytes} bytes by {actor.name} in "
                f"{actor.actions[-1]} must come after the {'write' if found.wrote else 'read'} by "
                f"{other.name} in {other.actions[found.time - 1]}, but nothing orders them"
            )


def calling_line() -> str:
    """Return the innermost line of source that is neither of this package nor of torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PLUMBING):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"

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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_PLUMBING = (
    str(Path(__file__).parent),
    str(Path(torch.__file__).parent),
    contextlib.__file__,
    weakref.__file__,
    "<string>",
)

Clock: TypeAlias = dict[int, int]
"""By the number of an actor, how many of its actions have happened; none is zero."""

Conflict: TypeAlias = tuple[int, int, bool, int]
"""Of an earlier access: the actor, the time, whether it wrote, and on how many bytes."""

Bytes: TypeAlias = slice | NDArray[np.int64]
"""Positions of bytes, each one once: what indexes an array with an entry per byte."""


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


class Shadow:
    """When each actor last wrote and read each byte; what came before the last write is forgotten.

    The memory begins at ``address``; ``place`` is the device that it is on, for messages.
    """

    def __init__(self, nbytes: int, place: str, address: int = 0) -> None:
        self.place, self.nbytes, self.address = place, nbytes, address
        # Times of an actor, one per byte; zero is never.
        self._written: dict[int, NDArray[np.int64]] = {}
        self._read: dict[int, NDArray[np.int64]] = {}

    def conflict(self, touched: Bytes, clock: Clock, *, writes: bool) -> Conflict | None:
        """Return an access that ``clock`` does not know of, but for a read if this is one, too."""
        accesses = [(actor, times, True) for actor, times in self._written.items()]
        if writes:
            accesses += [(actor, times, False) for actor, times in self._read.items()]
        for actor, times, wrote in accesses:
            late = times[touched] > clock.get(actor, 0)
            if late.any():
                return actor, int(times[touched].max()), wrote, int(late.sum())
        return None

    def note(self, touched: Bytes, actor: int, time: int, *, writes: bool) -> None:
        """Remember an access; a write comes after all others, which are forgotten."""
        if writes:
            for times in (*self._written.values(), *self._read.values()):
                times[touched] = 0
        own = self._written if writes else self._read
        if actor not in own:
            own[actor] = np.zeros(self.nbytes, np.int64)
        own[actor][touched] = time


def bytes_of(tensor: Tensor, address: int) -> Bytes:
    """Return the bytes that a tensor's elements occupy, counted from ``address``.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(2, 3, dtype=torch.int16)
    >>> bytes_of(x[1:], x.data_ptr())
    slice(6, 12, None)
    >>> bytes_of(x[:, 1], x.data_ptr())
    array([2, 3, 8, 9])
    """
    start = tensor.data_ptr() - address
    itemsize = tensor.element_size()
    if tensor.numel() == 0:
        return slice(0, 0)
    if tensor.is_contiguous():
        return slice(start, start + tensor.numel() * itemsize)
    elements = np.zeros((), np.int64)
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements = elements[..., None] + np.arange(length, dtype=np.int64) * stride
    # An expanded dimension touches the same element again.
    starts = np.unique(elements) * itemsize + start
    return (starts[:, None] + np.arange(itemsize)).ravel()


class RaceError(RuntimeError):
    """Two accesses to the same memory happen in an order that nothing decides."""

    __module__ = "linops_multigpu.testing"  # a traceback shows the name that users import


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
        self.compare(actor, shadow, touched, actor.clock, "write" if writes else "read")
        shadow.note(touched, actor.number, len(actor.actions), writes=writes)

    def compare(
        self, actor: Actor, shadow: Shadow, touched: Bytes, clock: Clock, verb: str
    ) -> None:
        """Note a race if ``clock`` does not know what the last action of ``actor`` comes after."""
        found = shadow.conflict(touched, clock, writes=verb != "read")
        if found is not None:
            number, time, wrote, nbytes = found
            other = self.actors[number]
            self.races.append(
                f"{shadow.place}: the {verb} of {nbytes} bytes by {actor.name} in "
                f"{actor.actions[-1]} must come after the {'write' if wrote else 'read'} by "
                f"{other.name} in {other.actions[time - 1]}, but nothing orders them"
            )


def calling_line() -> str:
    """Return the innermost line of source that is neither of this package nor of torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PLUMBING):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"

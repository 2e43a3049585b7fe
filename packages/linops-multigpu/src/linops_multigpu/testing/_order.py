"""The happens-before checker: every memory access must come after those it depends on.

It checks the order that the program requires, not the order of one run. So it finds the same races
under every schedule.
"""

from __future__ import annotations

import contextlib
import os
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
"""The number of actions of each actor that have happened; missing actors have zero."""

Conflict: TypeAlias = tuple[int, int, bool, int]
"""An earlier access: the actor, its time, whether it wrote, and the number of bytes."""

Bytes: TypeAlias = slice | NDArray[np.int64]
"""Positions of bytes, each once; can index an array with one entry per byte."""


@dataclass(eq=False)
class Actor:
    """The host or a stream: its clock, and descriptions of its actions, counted from one.

    Action n is ordered before another action if the other one's clock has at least n for its actor.
    """

    number: int
    name: str
    clock: Clock = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)


def learn(clock: Clock, other: Clock) -> None:
    """Merge the clock ``other`` into ``clock``."""
    for actor, time in other.items():
        clock[actor] = max(time, clock.get(actor, 0))


class Shadow:
    """The last write and read of each byte by each actor. A write deletes older accesses.

    The memory begins at ``address``; ``device`` is its device, for messages.
    """

    def __init__(self, nbytes: int, device: str, address: int = 0) -> None:
        self.device, self.nbytes, self.address = device, nbytes, address
        # The times of an actor, one per byte; zero means never.
        self._written: dict[int, NDArray[np.int64]] = {}
        self._read: dict[int, NDArray[np.int64]] = {}

    def conflict(self, touched: Bytes, clock: Clock, *, writes: bool) -> Conflict | None:
        """Return a conflicting access that ``clock`` does not know; two reads do not conflict."""
        accesses = [(actor, times, True) for actor, times in self._written.items()]
        if writes:
            accesses += [(actor, times, False) for actor, times in self._read.items()]
        for actor, times, wrote in accesses:
            late = times[touched] > clock.get(actor, 0)
            if late.any():
                return actor, int(times[touched].max()), wrote, int(late.sum())
        return None

    def note(self, touched: Bytes, actor: int, time: int, *, writes: bool) -> None:
        """Note an access. A write comes after all others, so they are deleted."""
        if writes:
            for times in (*self._written.values(), *self._read.values()):
                times[touched] = 0
        accesses = self._written if writes else self._read
        if actor not in accesses:
            accesses[actor] = np.zeros(self.nbytes, np.int64)
        accesses[actor][touched] = time


def bytes_of(tensor: Tensor, address: int) -> Bytes:
    """Return the bytes that the elements of a tensor occupy, counted from ``address``.

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
    # An expanded dimension touches the same element several times.
    starts = np.unique(elements) * itemsize + start
    return (starts[:, None] + np.arange(itemsize)).ravel()


class RaceError(RuntimeError):
    """Two accesses to the same memory have no defined order."""

    __module__ = "linops_multigpu.testing"  # a traceback shows the name that users import


class Checker:
    """All actors, and the races between their accesses."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.races: list[str] = []
        self.host = self.new_actor("the host")

    def new_actor(self, name: str) -> Actor:
        """Return a new actor with an empty clock."""
        self.actors.append(Actor(len(self.actors), name))
        return self.actors[-1]

    def begin(self, actor: Actor, name: str, line: str | None = None) -> None:
        """Begin an action. The host issues it, so it comes after all that the host knows."""
        learn(actor.clock, self.host.clock)
        actor.actions.append(f"{name} ({line or calling_line()})")
        actor.clock[actor.number] = len(actor.actions)

    def access(
        self, actor: Actor, shadow: Shadow, tensor: Tensor, written: Sequence[Tensor]
    ) -> None:
        """Let the last action of ``actor`` write a tensor if it is in ``written``, else read it."""
        writes = any(tensor is out for out in written)
        touched = bytes_of(tensor, shadow.address)
        self.compare(actor, shadow, touched, actor.clock, "write" if writes else "read")
        shadow.note(touched, actor.number, len(actor.actions), writes=writes)

    def compare(
        self, actor: Actor, shadow: Shadow, touched: Bytes, clock: Clock, verb: str
    ) -> None:
        """Note a race if ``clock`` does not know an access that conflicts with the last action."""
        conflict = shadow.conflict(touched, clock, writes=verb != "read")
        if conflict is not None:
            number, time, wrote, nbytes = conflict
            other = self.actors[number]
            self.races.append(
                f"{shadow.device}: the {verb} of {nbytes} bytes by {actor.name} in "
                f"{actor.actions[-1]} must come after the {'write' if wrote else 'read'} by "
                f"{other.name} in {other.actions[time - 1]}, but nothing orders them"
            )


def calling_line() -> str:
    """Return the innermost source line outside of this package and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PLUMBING):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

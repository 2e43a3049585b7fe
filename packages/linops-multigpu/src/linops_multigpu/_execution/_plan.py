"""What a batched operator does when it is applied, as data: the order of its execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import torch

from linops_core import Window
from memmap import html_table

_MAX_ROWS = 100
"""Of a plan in a notebook: those of large plans would make it slow."""


class Kind(StrEnum):
    """What an action does."""

    SEND = "send"
    """Copy what a tile reads of the input from the base device to the tile's."""
    COMPUTE = "compute"
    """Apply a tile; on the base device, put the result where it belongs."""
    COLLECT = "collect"
    """Copy a result, or the sum of a device's results, to the base device."""
    ADD = "add"
    """Add to the output what was collected."""


@dataclass(frozen=True)
class Action:
    """One step of an execution.

    Actions are issued in the order of the plan, each to a stream of its own kind: that of a device
    for what is sent to it, for what it computes, for what is collected from it, and the caller's on
    the base device. There it starts when the ones before it on that stream, and those that it
    waits for, are done.
    """

    kind: Kind
    tile: int
    """Position of the tile in the tiling; of a sum of several, the last."""
    device: torch.device
    """That of the tile."""
    window: Window
    """Which part of the input is sent or read, or which part of the output is written."""
    after: tuple[int, ...] = ()
    """Positions in the plan of the actions it waits for."""
    uses: tuple[int, ...] = ()
    """Positions of the actions whose tensors it reads."""
    drops: tuple[int, ...] = ()
    """Positions of the actions whose tensors nobody needs once this one has waited."""
    onto: int | None = None
    """Position of the action to whose result this one adds its own, on the same device."""
    adds: bool = False
    """Whether its result is added to what is in the output."""
    slot: int | None = None
    """Of an action that collects what is to be added: which of the buffers holds it."""
    operand: int = 0
    """Of an action that sends: which tensor. In a backward pass the gradient is 0, the input 1."""


@dataclass(frozen=True)
class Plan:
    """The actions of one application, or of its backward pass, in the order of issue."""

    actions: tuple[Action, ...]
    base: torch.device
    """Where the input is and the output goes."""
    n_slots: int
    """How many buffers on the base device hold what was collected and is to be added."""
    max_in_flight: int
    """How many inputs, and how many results, are on each device at a time."""
    n_lanes: int
    """How many other devices work, where one counts as often as it has streams."""

    def __str__(self) -> str:
        """Return a line for each action."""
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        columns = ["step", "what", "tile", "device", "part", "after"]
        rows = [*islice(self._rows(), _MAX_ROWS)]
        more = len(self.actions) - len(rows)
        caption = self._title() + f" ({more} more steps: print the plan)" * (more > 0)
        return html_table(columns, rows, caption, ("step", "tile"))

    def _lines(self) -> Iterator[str]:
        yield self._title()
        for number, kind, tile, device, part, after in self._rows():
            line = f"{number:>4}  {kind:8} tile {tile:<4} {device:8} {part}"
            yield line + (f"  after {after}" if after else "")

    def _title(self) -> str:
        devices = sorted({str(action.device) for action in self.actions})
        tiles = len({a.tile for a in self.actions if a.kind is Kind.COMPUTE})
        return f"{tiles} tiles on {', '.join(devices)}; input and output on {self.base}"

    def _rows(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        for number, action in enumerate(self.actions):
            of = "y" if action.kind in (Kind.COLLECT, Kind.ADD) else "x"
            window = ", ".join(f"{d} {p.start}:{p.stop}" for d, p in action.window.items())
            after = ", ".join(map(str, action.after))
            part = f"{of}[{window or 'all'}]"
            yield str(number), str(action.kind), str(action.tile), str(action.device), part, after

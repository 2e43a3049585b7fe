"""The steps of a batched operator, as data, in the order of their execution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import torch

from linops_core import Window
from memmap import html_table

_MAX_ROWS = 100
"""The most rows that a notebook shows; more would be slow."""


class Kind(StrEnum):
    """The kind of an action."""

    SEND = "send"
    """Copy the slice of the input that a tile reads from the base device to the tile's device."""
    COMPUTE = "compute"
    """Apply a tile. On the base device, also write the result to its slice."""
    COLLECT = "collect"
    """Copy a result, or the sum of the results of a device, to the base device."""
    ADD = "add"
    """Add a collected result to the output."""


@dataclass(frozen=True)
class Action:
    """One step of an execution.

    Actions are issued in the order of the plan. Each device has three streams: for inputs, for
    computing, and for results; the base device uses the caller's stream. An action starts when the
    earlier actions on its stream, and those it waits for, are done.
    """

    kind: Kind
    tile: int
    """Position of the tile in the table; for a sum of several tiles, the last one."""
    device: torch.device
    """The device of the tile."""
    window: Window
    """The part of the input that is sent or read, or the part of the output that is written."""
    after: tuple[int, ...] = ()
    """Positions in the plan of the actions it waits for."""
    uses: tuple[int, ...] = ()
    """Positions of the actions whose tensors it reads."""
    drops: tuple[int, ...] = ()
    """Positions of the actions whose tensors are dropped after this action has waited."""
    onto: int | None = None
    """Position of the action to whose result this action adds its own, on the same device."""
    adds: bool = False
    """Whether its result is added to the contents of the output."""
    slot: int | None = None
    """For collected results that are to be added: the number of their buffer."""
    operand: int = 0
    """For sends: the number of the tensor. In a backward pass 0 is the gradient, 1 the input."""


@dataclass(frozen=True)
class Plan:
    """The actions of one call, or of its backward pass, in the order of issue."""

    actions: tuple[Action, ...]
    base: torch.device
    """The device of input and output."""
    n_slots: int
    """Number of buffers on the base device for collected results that are to be added."""
    max_in_flight: int
    """The number of inputs, and of results, on each device at a time."""
    n_lanes: int
    """The number of other devices that work; a device counts once for each of its streams."""

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
            vector = "y" if action.kind in (Kind.COLLECT, Kind.ADD) else "x"
            window = ", ".join(f"{d} {p.start}:{p.stop}" for d, p in action.window.items())
            after = ", ".join(map(str, action.after))
            part = f"{vector}[{window or 'all'}]"
            yield str(number), str(action.kind), str(action.tile), str(action.device), part, after

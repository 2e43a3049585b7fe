"""Planning: from tiles and their devices to the order of an execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TypeAlias, cast

import torch

from linops_core import Window
from linops_split import Tiling
from nameddim import NamedDimension

from ._plan import Action, Kind, Plan

Key: TypeAlias = frozenset[tuple[NamedDimension, int, int]]
"""A window as a value."""


def planned(
    tiling: Tiling,
    devices: Sequence[torch.device],
    base: torch.device,
    max_in_flight: int,
    lanes: Sequence[Hashable] | None = None,
) -> Plan:
    """Return the plan of applying the tiles of ``tiling``, each on its device.

    What several tiles of a device read is sent to it once; what several of them add up is added
    there and collected once. On each device there are at most ``max_in_flight`` inputs and as many
    results at a time, beside those that later tiles still need.

    Parameters
    ----------
    tiling : Tiling
    devices : sequence of torch.device
        Of each tile.
    base : torch.device
    max_in_flight : int
    lanes : sequence, optional
        What is the same for tiles that compute on the same stream of the same device. By default
        their devices are; where one has several, each counts as a device here.
    """
    return _Planner(tiling, devices, base, max_in_flight, lanes or devices).plan()


def check_window(what: str, max_in_flight: object) -> None:
    """Refuse what cannot be a number of inputs and results on each device.

    Raises
    ------
    TypeError
        If it is no integer.
    ValueError
        If it is not positive.
    """
    if isinstance(max_in_flight, bool) or not isinstance(max_in_flight, Integral):
        raise TypeError(f"{what}: max_in_flight must be an integer, got {max_in_flight!r}")
    if max_in_flight < 1:
        raise ValueError(f"{what}: max_in_flight must be positive, got {max_in_flight}")


@dataclass
class _Lane:
    """What is on one device while a plan is made."""

    sent: dict[Key, int] = field(default_factory=dict)
    """The action that sends what tiles read, of what is there."""
    sums: dict[Key, int] = field(default_factory=dict)
    """The action that computed the last of the results that are added up."""
    collected: list[int] = field(default_factory=list)
    """The actions that collect the results that are there, oldest first."""


class _Planner:
    def __init__(
        self,
        tiling: Tiling,
        devices: Sequence[torch.device],
        base: torch.device,
        max_in_flight: int,
        lane_of: Sequence[Hashable],
    ) -> None:
        self.lane_of = lane_of
        self.parts, self.devices, self.base = tiling.parts, devices, base
        self.max_in_flight = max_in_flight
        self.reads = [_key(part.reads) for part in tiling.parts]
        self.writes = [_key(part.writes) for part in tiling.parts]
        whole = {key for key, part in zip(self.writes, tiling.parts, strict=True) if not part.adds}
        # Where tiles write parts of what others do, who comes first would matter.
        self.fills = tiling.fills and whole.issuperset(self.writes)
        places = list(zip(lane_of, self.reads, strict=True))
        self.last_reader = {place: tile for tile, place in enumerate(places)}
        self.n_to_add = Counter(zip(lane_of, self.writes, strict=True))
        self.actions: list[Action] = []
        self.lanes: dict[Hashable, _Lane] = {}
        self.computed: dict[int, int] = {}
        self.written: dict[Key, tuple[int, ...]] = {}
        self.slots: list[int] = []

    def plan(self) -> Plan:
        for tile in sorted(range(len(self.parts)), key=self.turn):
            if self.devices[tile] == self.base:
                self.compute_here(tile)
            else:
                self.compute_there(tile)
        n_slots = len({action.slot for action in self.actions} - {None})
        return Plan(
            tuple(self.actions),
            self.base,
            self.fills,
            n_slots,
            self.max_in_flight,
            n_lanes=len(self.lanes),
        )

    def turn(self, tile: int) -> int:
        """Return when a tile has its turn: last the host, which can issue nothing meanwhile."""
        device = self.devices[tile]
        return 2 if device.type == "cpu" else int(device == self.base)

    def issue(self, action: Action) -> int:
        self.actions.append(action)
        return len(self.actions) - 1

    def is_written(self, tile: int) -> bool:
        """Whether there is something where a tile writes, to which its result must be added."""
        return not self.fills or self.writes[tile] in self.written

    def compute_here(self, tile: int) -> None:
        adds, reads, key = self.is_written(tile), self.parts[tile].reads, self.writes[tile]
        # What this device computes, it computes in order.
        after = self.written.setdefault(key, ())
        self.issue(Action(Kind.COMPUTE, tile, self.base, reads, after=after, adds=adds))

    def compute_there(self, tile: int) -> None:
        device, key = self.devices[tile], self.writes[tile]
        lane_of = self.lane_of[tile]
        lane = self.lanes.setdefault(lane_of, _Lane())
        source = self.send(tile, lane)
        earlier = lane.sums.get(key)
        after, drops = [source], list[int]()
        # What is added to an earlier result takes no memory of its own.
        n_kept = self.max_in_flight - (earlier is None)
        n_excess = max(0, len(lane.collected) - n_kept)
        for oldest in lane.collected[:n_excess]:
            after.append(oldest)
            drops += [oldest, cast(int, self.actions[oldest].uses)]
        del lane.collected[:n_excess]
        number = self.issue(
            Action(
                Kind.COMPUTE,
                tile,
                device,
                self.parts[tile].reads,
                after=tuple(after),
                uses=source,
                drops=tuple(drops),
                onto=earlier,
            )
        )
        self.computed[tile] = number
        lane.sums[key] = number
        self.n_to_add[lane_of, key] -= 1
        if not self.n_to_add[lane_of, key]:
            lane.collected.append(self.collect(tile, lane.sums.pop(key)))

    def send(self, tile: int, lane: _Lane) -> int:
        key, device = self.reads[tile], self.devices[tile]
        if key in lane.sent:
            return lane.sent[key]
        after, drops = list[int](), list[int]()
        for old, sent in list(lane.sent.items()):
            reader = self.computed.get(self.last_reader[self.lane_of[tile], old])
            if reader is not None and len(lane.sent) >= self.max_in_flight:
                after.append(reader)
                drops.append(sent)
                del lane.sent[old]
        lane.sent[key] = self.issue(
            Action(
                Kind.SEND,
                tile,
                device,
                self.parts[tile].reads,
                after=tuple(after),
                drops=tuple(drops),
            )
        )
        return lane.sent[key]

    def collect(self, tile: int, source: int) -> int:
        device, window, adds = self.devices[tile], self.parts[tile].writes, self.is_written(tile)
        slot, after = None, [source]
        if adds:
            slot = len(self.slots)
            if slot >= self.max_in_flight:
                slot %= self.max_in_flight
                after.append(self.slots[-self.max_in_flight])
        number = self.issue(
            Action(
                Kind.COLLECT,
                tile,
                device,
                window,
                after=tuple(after),
                uses=source,
                adds=adds,
                slot=slot,
            )
        )
        if adds:
            after = [number, *self.written.get(self.writes[tile], ())]
            action = Action(
                Kind.ADD,
                tile,
                device,
                window,
                after=tuple(after),
                uses=number,
                adds=True,
                slot=slot,
            )
            self.slots.append(self.issue(action))
        else:
            self.written[self.writes[tile]] = (number,)
        return number


def _key(window: Window) -> Key:
    return frozenset((dim, piece.start, piece.stop) for dim, piece in window.items())

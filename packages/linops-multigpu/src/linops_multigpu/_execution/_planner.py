"""Planning: from parts and their devices to the order of an execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import torch

from linops_split.siblings import Slices, Work

from ._plan import Action, Kind, Plan


def planned(
    work: Work,
    devices: Sequence[torch.device],
    base: torch.device,
    max_in_flight: int,
    lanes: Sequence[Hashable] | None = None,
) -> Plan:
    """Return the plan for computing the parts of a table, each on its device.

    Nothing is sent to parts that are not needed. A slice that several parts on a device read is
    sent there once. Results that are added up are added on their device and collected once. Each
    device holds at most ``max_in_flight`` inputs and as many results at a time, besides inputs that
    later parts still need. ``lanes`` are equal for parts that compute on the same stream of the
    same device. By default there is one per device.
    """
    return _Planner(work, devices, base, max_in_flight, lanes or devices).plan()


@dataclass
class _Lane:
    """The contents of one device while a plan is made."""

    sent: list[dict[Slices, int]]
    """For each operand, the send actions whose slices are on the device."""
    sums: dict[Slices, int] = field(default_factory=dict)
    """The action that computed the latest of the results that are added up."""
    collected: list[int] = field(default_factory=list)
    """The collect actions whose results are still on the device, oldest first."""


@dataclass
class _Planner:
    """Makes a plan; see :func:`planned`."""

    work: Work
    devices: Sequence[torch.device]
    base: torch.device
    max_in_flight: int
    lane_of: Sequence[Hashable]

    def __post_init__(self) -> None:
        work = self.work
        self.operands = [layout.windows for layout in work.reads]
        self.read_keys = [layout.keys for layout in work.reads]
        self.write_keys = work.layout.keys
        # If slices overlap in part, the order of writes would matter, so all results are added.
        self.overlaps = work.layout.overlaps
        self.needed = [*filter(work.is_needed, range(len(self.devices)))]
        self.last_reader = [
            {
                (self.lane_of[tile], keys[tile]): tile
                for tile in self.needed
                if operand < work.n_read(tile)
            }
            for operand, keys in enumerate(self.read_keys)
        ]
        self.n_to_add = Counter((self.lane_of[n], self.write_keys[n]) for n in self.needed)
        self.actions: list[Action] = []
        self.lanes: dict[Hashable, _Lane] = {}
        self.computed: dict[int, int] = {}
        self.written: dict[Slices, tuple[int, ...]] = {}
        self.slots: list[int] = []

    def plan(self) -> Plan:
        """Return the plan."""
        for tile in sorted(self.needed, key=self.turn):
            if self.devices[tile] == self.base:
                self.compute_on_base(tile)
            else:
                self.compute_on_lane(tile)
        n_slots = min(len(self.slots), self.max_in_flight)
        return Plan(
            tuple(self.actions), self.base, n_slots, self.max_in_flight, n_lanes=len(self.lanes)
        )

    def turn(self, tile: int) -> int:
        """Return when a tile is issued: the host comes last, because it blocks the thread."""
        device = self.devices[tile]
        return 2 if device.type == "cpu" else int(device == self.base)

    def issue(self, action: Action) -> int:
        self.actions.append(action)
        return len(self.actions) - 1

    def is_written(self, tile: int) -> bool:
        """Whether something was written where a tile writes, so that its result must be added."""
        return self.overlaps or self.write_keys[tile] in self.written

    def compute_on_base(self, tile: int) -> None:
        adds, after = False, tuple[int, ...]()
        if self.work.collects:
            adds = self.is_written(tile)
            # This device computes in order, so it need not wait for its own actions.
            after = self.written.setdefault(self.write_keys[tile], ())
        reads = self.operands[-1][tile]
        self.issue(Action(Kind.COMPUTE, tile, self.base, reads, after=after, adds=adds))

    def compute_on_lane(self, tile: int) -> None:
        lane_of = self.lane_of[tile]
        lane = self.lanes.setdefault(lane_of, _Lane([{} for _ in self.operands]))
        read = range(self.work.n_read(tile))
        sources = tuple([self.send(operand, tile, lane) for operand in read])
        device, window = self.devices[tile], self.operands[-1][tile]
        action = Action(Kind.COMPUTE, tile, device, window, after=sources, uses=sources)
        if not self.work.collects:
            self.computed[tile] = self.issue(action)
            return
        key = self.write_keys[tile]
        earlier = lane.sums.get(key)
        after, drops = list(sources), list[int]()
        # A result that is added to an earlier one takes no memory of its own.
        n_kept = self.max_in_flight - (earlier is None)
        n_excess = max(0, len(lane.collected) - n_kept)
        for oldest in lane.collected[:n_excess]:
            after.append(oldest)
            drops += [oldest, *self.actions[oldest].uses]
        del lane.collected[:n_excess]
        number = self.issue(replace(action, after=tuple(after), drops=tuple(drops), onto=earlier))
        self.computed[tile] = number
        lane.sums[key] = number
        self.n_to_add[lane_of, key] -= 1
        if not self.n_to_add[lane_of, key]:
            lane.collected.append(self.collect(tile, lane.sums.pop(key)))

    def send(self, operand: int, tile: int, lane: _Lane) -> int:
        key, sent = self.read_keys[operand][tile], lane.sent[operand]
        if key in sent:
            return sent[key]
        after, drops = list[int](), list[int]()
        last_reader = self.last_reader[operand]
        for old, number in list(sent.items()):
            reader = self.computed.get(last_reader[self.lane_of[tile], old])
            if reader is not None and len(sent) >= self.max_in_flight:
                after.append(reader)
                drops.append(number)
                del sent[old]
        action = Action(Kind.SEND, tile, self.devices[tile], self.operands[operand][tile])
        sent[key] = self.issue(
            replace(action, operand=operand, after=tuple(after), drops=tuple(drops))
        )
        return sent[key]

    def collect(self, tile: int, source: int) -> int:
        key, after = self.write_keys[tile], [source]
        window = self.work.layout.windows[tile]
        action = Action(Kind.COLLECT, tile, self.devices[tile], window, uses=(source,))
        if not self.is_written(tile):
            number = self.issue(replace(action, after=(source,)))
            self.written[key] = (number,)
            return number
        slot = len(self.slots)
        if slot >= self.max_in_flight:
            slot %= self.max_in_flight
            after.append(self.slots[-self.max_in_flight])
        action = replace(action, adds=True, slot=slot)
        number = self.issue(replace(action, after=tuple(after)))
        after = [number, *self.written.get(key, ())]
        added = replace(action, kind=Kind.ADD, after=tuple(after), uses=(number,))
        self.slots.append(self.issue(added))
        return number

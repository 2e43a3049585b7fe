"""The tiles of a batched operator, where they work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from linops_core import NamedLinop, has_hooks, n_hooks_registered

from .._devices._device_spec import DeviceSpec
from ._remote import Remote


@dataclass(frozen=True)
class Worker:
    """A tile where it works."""

    apply: Callable[[Tensor], Tensor]
    """From what the tile reads to what it writes, both on its device."""
    place: int | None
    """Position of its place among those of the crew; None for the base device."""


@dataclass(frozen=True)
class Place:
    """Another device than the base, and the streams to use there and on the base for it."""

    device: DeviceSpec
    base: DeviceSpec


@dataclass(frozen=True)
class Crew:
    """All tiles of a tiling, in its order."""

    workers: Sequence[Worker]
    places: Sequence[Place]
    base: DeviceSpec
    remotes: Sequence[Remote]
    """The tiles of which the worker is a part, so that they are not called themselves."""
    n_hooks: int | None
    """How many hooks had been registered when none of these tiles had one; None if one had."""

    def passes_by_hooks(self) -> bool:
        """Whether somebody has hooked into a tile that is not called."""
        return n_hooks_registered() != self.n_hooks and any(map(has_hooks, self.remotes))

    @property
    def lanes(self) -> list[int | None]:
        """The place of each tile."""
        return [worker.place for worker in self.workers]

    @property
    def devices(self) -> list[torch.device]:
        """The device of each tile."""
        return [
            self.base.device if worker.place is None else self.places[worker.place].device.device
            for worker in self.workers
        ]


def crew_of(tiles: Iterable[NamedLinop], base: DeviceSpec) -> Crew:
    """Return the tiles where they work: those that are :class:`Remote`, on their devices."""
    places: dict[Place, int] = {}
    workers, remotes = [], []
    for tile in tiles:
        if isinstance(tile, Remote):
            remotes.append(tile)
            place = places.setdefault(Place(tile.device, tile.base), len(places))
            workers.append(Worker(tile.there, place))
        else:
            workers.append(Worker(tile, None))
    n_hooks = None if any(map(has_hooks, remotes)) else n_hooks_registered()
    return Crew(workers, list(places), base, remotes, n_hooks)

"""Where the parts of a table work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from linops_split import Tiles

from .._devices._device_spec import DeviceSpec


@dataclass(frozen=True)
class DevicePair:
    """Another device than the base, and the streams to use there and on the base for it."""

    device: DeviceSpec
    base: DeviceSpec


@dataclass(frozen=True)
class DeviceTiles:
    """The parts of a table, and the device of each.

    Parameters
    ----------
    tiles : Tiles
        The place of a part is a DevicePair, or None for the base device.
    base : DeviceSpec
        Where input and output are.
    """

    tiles: Tiles
    base: DeviceSpec

    @property
    def pairs(self) -> list[DevicePair]:
        """The other devices, each with its streams once."""
        places = (cast(DevicePair | None, part.place) for part in self.tiles.parts)
        return list(dict.fromkeys(pair for pair in places if pair is not None))

    @property
    def lanes(self) -> list[int | None]:
        """The position in `pairs` of the device of each part; None for the base."""
        numbers = {pair: number for number, pair in enumerate(self.pairs)}
        return [numbers.get(cast(DevicePair, part.place)) for part in self.tiles.parts]

    @property
    def devices(self) -> Sequence[torch.device]:
        """The device of each part."""
        pairs = self.pairs
        return [
            self.base.device if lane is None else pairs[lane].device.device for lane in self.lanes
        ]

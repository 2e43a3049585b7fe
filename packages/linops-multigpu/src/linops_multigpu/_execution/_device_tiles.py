"""The devices of the parts of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch

from linops_split import Tiles

from .._devices._device_spec import DeviceSpec


@dataclass(frozen=True)
class DevicePair:
    """A device other than the base, and the streams to use there and on the base for it."""

    device: DeviceSpec
    base: DeviceSpec


@dataclass(frozen=True)
class DeviceTiles:
    """A table whose parts have a DevicePair, or None for the base device."""

    tiles: Tiles
    base: DeviceSpec
    """The device of input and output."""

    @cached_property
    def pairs(self) -> list[DevicePair]:
        """The other devices, each with its streams, without repetitions."""
        pairs = (cast(DevicePair | None, part.devices) for part in self.tiles.parts)
        return list(dict.fromkeys(pair for pair in pairs if pair is not None))

    @cached_property
    def lanes(self) -> list[int | None]:
        """The position in `pairs` of the device of each part; None for the base."""
        numbers = {pair: number for number, pair in enumerate(self.pairs)}
        return [numbers.get(cast(DevicePair, part.devices)) for part in self.tiles.parts]

    @cached_property
    def devices(self) -> list[torch.device]:
        """The device of each part."""
        others = [pair.device.device for pair in self.pairs]
        return [self.base.device if lane is None else others[lane] for lane in self.lanes]

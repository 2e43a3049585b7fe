"""What to cut, and where the tiles are to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nameddim import ND, NamedDimension

from ._devices import as_device

DeviceMatrix: TypeAlias = (
    str | torch.device | Sequence["DeviceMatrix"] | NDArray[np.object_] | NDArray[np.str_]
)
"""One device, or devices in nested sequences of equal lengths, or in an array."""


@dataclass(frozen=True, init=False, eq=False)
class BatchSpec:
    """How to cut an operator, and on which devices its tiles are to work.

    Specs are values: they cannot be changed and compare by what they hold.

    Parameters
    ----------
    batch_sizes : mapping of dimension to int
        How long a tile is in each dimension; the first dimension is the outermost.
    device_matrix : device, or nested sequences or array of devices, optional
        Laid over the grid of tiles from its last axis, repeated and truncated as needed:
        two devices over four tiles take turns. Without it tiles stay on the base device.
    base_device : torch.device or str, optional
        Where inputs come from and outputs go. By default where the operator is.

    Raises
    ------
    ValueError
        If a device has no such name, or the matrix is ragged or empty.

    Examples
    --------
    >>> BatchSpec({"C": 2}, ["cuda:0", "cuda:1"]) == BatchSpec({"C": 2}, ("cuda:0", "cuda:1"))
    True
    """

    batch_sizes: Mapping[NamedDimension, int]
    device_matrix: tuple[object, ...] | torch.device | None
    base_device: torch.device | None

    def __init__(
        self,
        batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int],
        device_matrix: DeviceMatrix | None = None,
        base_device: torch.device | str | None = None,
    ) -> None:
        sizes = {ND.infer(dim): size for dim, size in batch_sizes.items()}
        devices = None if device_matrix is None else _nested(device_matrix)
        base = None if base_device is None else as_device(base_device)
        object.__setattr__(self, "batch_sizes", MappingProxyType(sizes))
        object.__setattr__(self, "device_matrix", devices)
        object.__setattr__(self, "base_device", base)

    def _key(self) -> tuple[object, ...]:
        # With the order of the dimensions: it is the order of the loops.
        return tuple(self.batch_sizes.items()), self.device_matrix, self.base_device

    def __eq__(self, other: object) -> bool:
        """Whether the other one cuts and places alike."""
        return self._key() == other._key() if isinstance(other, BatchSpec) else NotImplemented

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it: a read-only mapping has no pickle of its own."""
        return BatchSpec, (dict(self.batch_sizes), self.device_matrix, self.base_device)

    def devices(self) -> NDArray[np.object_] | None:
        """Return the device matrix as an array of torch.device."""
        if self.device_matrix is None:
            return None
        return np.array(self.device_matrix, dtype=object)


def _nested(devices: object) -> tuple[object, ...] | torch.device:
    """Return ``devices`` as nested tuples of normalised devices, all of one length a level."""
    if isinstance(devices, np.ndarray):
        devices = devices.tolist()
    if isinstance(devices, (str, torch.device)):
        return as_device(devices)
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ValueError(
            f"BatchSpec: device_matrix must hold devices, in sequences of at least one, "
            f"got {devices!r}"
        )
    rows = tuple(_nested(row) for row in devices)
    if len({_lengths(row) for row in rows}) > 1:
        raise ValueError(f"BatchSpec: the rows of device_matrix must be alike, got {devices!r}")
    return rows


def _lengths(devices: object) -> tuple[int, ...]:
    """Return the shape of nested tuples whose rows are alike."""
    return (len(devices), *_lengths(devices[0])) if isinstance(devices, tuple) else ()

"""What to cut, and where the tiles are to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nameddim import ND, NamedDimension

from .._devices._device_spec import DeviceSpec, Value, as_device, refuse_to_pickle, stream_of
from .._devices._streams import Stream, as_stream

DeviceMatrix: TypeAlias = (
    str | torch.device | DeviceSpec | Sequence["DeviceMatrix"] | NDArray[np.object_ | np.str_]
)
"""One device, or devices in nested sequences of equal lengths, or in an array."""


@dataclass(frozen=True, init=False)
class BatchSpec(Value):
    """How to cut an operator, and on which devices its tiles are to work.

    A spec is a value, as a :class:`DeviceSpec` is.

    Parameters
    ----------
    batch_sizes : mapping of dimension to int
        How long a tile is in each dimension; the first dimension is the outermost.
    device_matrix : device, or nested sequences or array of devices, optional
        Laid over the grid of tiles from its last axis, repeated and truncated as needed:
        two devices over four tiles take turns. Without it tiles stay on the base device. A
        :class:`DeviceSpec` says which streams to use there.
    base_device : torch.device or str, optional
        Where inputs come from and outputs go. By default where the streams of the base are, or
        where the operator is.
    base_stream, transfer_stream : stream, optional
        Those of the base device, as in a :class:`DeviceSpec`: where tiles on it work and outputs
        are put together, and where copies to and from it go.

    Raises
    ------
    ValueError
        If a batch size is no positive integer, a device has no such name, the matrix is ragged or
        empty, or a stream is not one of the base device.
    TypeError
        If a stream is none, or batch_sizes is no mapping.

    Examples
    --------
    >>> BatchSpec({"C": 2}, ["cuda:0", "cuda:1"]) == BatchSpec({"C": 2}, ("cuda:0", "cuda:1"))
    True
    """

    batch_sizes: Mapping[NamedDimension, int] = field(compare=False)
    device_matrix: tuple[object, ...] | DeviceSpec | None
    base_device: torch.device | None
    base_stream: Stream | None
    transfer_stream: Stream | None
    # In their order, which is that of the loops.
    _sizes: tuple[tuple[NamedDimension, int], ...] = field(repr=False)

    def __init__(
        self,
        batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int],
        device_matrix: DeviceMatrix | None = None,
        base_device: torch.device | str | None = None,
        base_stream: Stream | torch.Stream | None = None,
        transfer_stream: Stream | torch.Stream | None = None,
    ) -> None:
        if not isinstance(batch_sizes, Mapping):
            raise TypeError(
                "BatchSpec: batch_sizes must be a mapping of dimension to size, "
                f"got {type(batch_sizes)}"
            )
        sizes = {ND.infer(dim): size for dim, size in batch_sizes.items()}
        for dim, size in sizes.items():
            if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
                raise ValueError(
                    f"BatchSpec: the batch size of {dim} must be a positive integer, got {size!r}"
                )
        streams = {"base_stream": base_stream, "transfer_stream": transfer_stream}
        if base_device is None:
            for name, stream in reversed(streams.items()):
                if stream is not None:
                    base_device = as_stream(f"BatchSpec: {name}", stream).device
        base = None if base_device is None else as_device(base_device)
        own: dict[str, object] = {
            "batch_sizes": MappingProxyType(sizes),
            "device_matrix": None if device_matrix is None else _nested(device_matrix),
            "base_device": base,
            "_sizes": tuple(sizes.items()),
        }
        for name, stream in streams.items():
            own[name] = None if base is None else stream_of(f"BatchSpec: {name}", stream, base)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it; refused with a TypeError if it has streams."""
        refuse_to_pickle("BatchSpec", self.base_stream, self.transfer_stream)
        return BatchSpec, (dict(self.batch_sizes), self.device_matrix, self.base_device)

    def base(self) -> DeviceSpec | None:
        """Return the base device with its streams, if it was named."""
        if self.base_device is None:
            return None
        return DeviceSpec(self.base_device, self.base_stream, self.transfer_stream)

    def devices(self) -> NDArray[np.object_] | None:
        """Return the device matrix as an array of torch.device."""
        specs = self.device_specs()
        return None if specs is None else np.vectorize(attrgetter("device"), otypes=[object])(specs)

    def device_specs(self) -> NDArray[np.object_] | None:
        """Return the device matrix as an array of DeviceSpec."""
        return None if self.device_matrix is None else np.array(self.device_matrix, dtype=object)


def _nested(devices: object) -> tuple[object, ...] | DeviceSpec:
    """Return ``devices`` as nested tuples of DeviceSpec, all of one length a level."""
    if isinstance(devices, np.ndarray):
        devices = devices.tolist()
    if isinstance(devices, DeviceSpec):
        return devices
    if isinstance(devices, (str, torch.device)):
        return DeviceSpec(devices)
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ValueError(
            f"BatchSpec: device_matrix must hold devices, in sequences of at least one, "
            f"got {devices!r}"
        )
    rows = tuple(_nested(row) for row in devices)
    if len({np.shape(np.array(row, dtype=object)) for row in rows}) > 1:
        raise ValueError(f"BatchSpec: the rows of device_matrix must be alike, got {devices!r}")
    return rows

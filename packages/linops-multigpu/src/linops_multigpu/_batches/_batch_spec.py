"""BatchSpec: how to cut an operator, and on which devices the tiles work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from linops_core.siblings import is_size
from nameddim import ND, NamedDimension

from .._devices._device_spec import DeviceSpec, Immutable, as_device, refuse_to_pickle, stream_of
from .._devices._streams import Stream, as_stream

DeviceMatrix: TypeAlias = (
    str | torch.device | DeviceSpec | Sequence["DeviceMatrix"] | NDArray[np.object_ | np.str_]
)
"""One device, or an array or nested sequences (of equal lengths) of devices."""


@dataclass(frozen=True, init=False)
class BatchSpec(Immutable):
    """How to cut an operator, and on which devices its tiles work.

    A spec is an immutable value, like a :class:`DeviceSpec`.

    Parameters
    ----------
    batch_sizes : mapping of dimension to int
        The length of a tile in each dimension. The first dimension is the outermost loop.
    device_matrix : device, or nested sequences or array of devices, optional
        The devices of the tiles. It is aligned with the grid of tiles at the last axis, repeated
        and truncated as needed: with two devices, four tiles alternate. Without it, tiles stay on
        the base device. Use a :class:`DeviceSpec` to choose the streams of a device.
    base_device : torch.device or str, optional
        The device of inputs and outputs. Default: the device of the base streams, or of the
        operator.
    base_stream, transfer_stream : stream, optional
        Streams of the base device, as in a :class:`DeviceSpec`: one for computing tiles and
        collecting outputs, and one for copies to and from the device.

    Raises
    ------
    ValueError
        If a batch size is not a positive integer, a device name is invalid, the matrix is ragged
        or empty, or a stream belongs to another device.
    TypeError
        If ``base_stream`` or ``transfer_stream`` is not a stream, or ``batch_sizes`` is not a
        mapping.

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
    # The order of the sizes is the order of the loops, and counts in comparisons.
    _sizes: tuple[tuple[NamedDimension, int], ...] = field(repr=False, init=False)

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
            if not is_size(size):
                raise ValueError(
                    f"BatchSpec: the batch size of {dim} must be a positive integer, got {size!r}"
                )
        streams = {"base_stream": base_stream, "transfer_stream": transfer_stream}
        if base_device is None:
            for name, stream in reversed(streams.items()):
                if stream is not None:
                    base_device = as_stream(f"BatchSpec: {name}", stream).device
        base = None if base_device is None else as_device(base_device)
        state: dict[str, object] = {
            "batch_sizes": MappingProxyType(sizes),
            "device_matrix": None if device_matrix is None else _nested(device_matrix),
            "base_device": base,
            "_sizes": tuple(sizes.items()),
        }
        for name, stream in streams.items():
            state[name] = None if base is None else stream_of(f"BatchSpec: {name}", stream, base)
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it; raises TypeError if it has streams."""
        refuse_to_pickle("BatchSpec", self.base_stream, self.transfer_stream)
        return BatchSpec, (dict(self.batch_sizes), self.device_matrix, self.base_device)

    def base(self) -> DeviceSpec | None:
        """Return the base device with its streams, or None if it was not given."""
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
    """Return ``devices`` as nested tuples of DeviceSpec; all tuples of a level have one length."""
    if isinstance(devices, np.ndarray):
        devices = devices.tolist()
    if isinstance(devices, DeviceSpec):
        return devices
    if isinstance(devices, (str, torch.device)):
        return DeviceSpec(devices)
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ValueError(
            f"BatchSpec: device_matrix must hold devices, in nonempty sequences, got {devices!r}"
        )
    rows = tuple(_nested(row) for row in devices)
    if len({np.shape(np.array(row, dtype=object)) for row in rows}) > 1:
        raise ValueError(
            f"BatchSpec: the rows of device_matrix must have one shape, got {devices!r}"
        )
    return rows

"""A device, and the streams to use on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch

from ._device import as_device
from ._streams import HostBackend, Stream, as_stream, backend_of


class Value:
    """An object that cannot be changed, so that its copies are itself."""

    def __copy__(self) -> Self:
        """Return the value itself."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the value itself, streams and all."""
        return self


@dataclass(frozen=True, init=False)
class DeviceSpec(Value):
    """A device, and the streams to use on it instead of those that would be chosen.

    Tiles on the base device of a :class:`BatchSpec` work on the stream of the base, whatever their
    own spec says.

    Specs are values: they cannot be changed and compare by what they hold. One with streams
    belongs to the process that made them: its copies are the spec itself, and it has no pickle.

    Parameters
    ----------
    device : torch.device or str
    compute_stream : stream, optional
        Where the work goes. By default the stream that is current when it is called for.
    transfer_stream : stream, optional
        Where copies to and from the device go. By default one stream for each direction, which
        all operators of the process share.

    Raises
    ------
    ValueError
        If the device has no such name, or a stream is that of another device.
    TypeError
        If a stream is none.

    Examples
    --------
    >>> DeviceSpec("cpu:0") == DeviceSpec("cpu")
    True
    """

    device: torch.device
    compute_stream: Stream | None
    transfer_stream: Stream | None

    def __init__(
        self,
        device: torch.device | str,
        compute_stream: Stream | torch.Stream | None = None,
        transfer_stream: Stream | torch.Stream | None = None,
    ) -> None:
        found = as_device(device)
        compute = stream_of("DeviceSpec: compute_stream", compute_stream, found)
        transfer = stream_of("DeviceSpec: transfer_stream", transfer_stream, found)
        object.__setattr__(self, "device", found)
        object.__setattr__(self, "compute_stream", compute)
        object.__setattr__(self, "transfer_stream", transfer)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it.

        Raises
        ------
        TypeError
            If it holds streams.
        """
        refuse_to_pickle("DeviceSpec", self.compute_stream, self.transfer_stream)
        return DeviceSpec, (self.device,)


def stream_of(what: str, stream: object, device: torch.device) -> Stream | None:
    """Return the stream that was given for ``device``, if one was; refuse that of another."""
    if stream is None:
        return None
    found = as_stream(what, stream)
    if isinstance(backend_of(device), HostBackend):
        raise ValueError(f"{what} must be left out for {device}, which has no streams")
    if found.device != device:
        raise ValueError(f"{what} must be a stream of {device}, got one of {found.device}")
    return found


def refuse_to_pickle(what: str, *streams: Stream | None) -> None:
    """Raise a TypeError if there is a stream: it is a handle of this process."""
    if any(stream is not None for stream in streams):
        raise TypeError(
            f"{what}: streams belong to one process and must be given again in another, "
            f"got one with streams to pickle"
        )

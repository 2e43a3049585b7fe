"""A device by name, and the streams to use on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch

from ._streams import HostBackend, Stream, as_stream, backend_of


def as_device(device: torch.device | str) -> torch.device:
    """Return the device with its index, of which the CPU has none; refuse what names no device."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"a device must be named as in 'cpu' or 'cuda:0', got {device!r}"
        ) from error
    if found.type in ("cpu", "meta"):
        return torch.device(found.type)
    if found.index is None:
        # "cuda" is whichever is current; a tensor on it says "cuda:0".
        return probed(found)
    return found


def probed(device: torch.device) -> torch.device:
    """Return the device that a tensor made on ``device`` is on; refuse one that is not there."""
    try:
        return torch.empty(0, device=device).device
    except Exception as error:  # each backend has exceptions of its own
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"the device {device} must be there to be used: {reason}") from error


class Value:
    """An object that cannot be changed, so that its copies are itself, streams and all."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True, init=False)
class DeviceSpec(Value):
    """A device, and the streams to use on it instead of those that would be chosen.

    Tiles on the base device of a :class:`BatchSpec` work on the stream of the base, whatever their
    own spec says. A spec is a value: it cannot be changed, and compares by what it holds. Its
    copies are the spec itself. One with streams, which belong to a process, cannot be pickled.

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
        object.__setattr__(self, "device", found)
        streams = {"compute_stream": compute_stream, "transfer_stream": transfer_stream}
        for name, stream in streams.items():
            object.__setattr__(self, name, stream_of(f"DeviceSpec: {name}", stream, found))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it; refused with a TypeError if it has streams."""
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
            "got one with streams to pickle"
        )

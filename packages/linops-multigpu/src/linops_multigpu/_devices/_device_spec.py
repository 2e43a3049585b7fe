"""DeviceSpec: a device and the streams to use on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch

from ._streams import HostBackend, Stream, as_stream, backend_of


def as_device(device: torch.device | str) -> torch.device:
    """Return the device with its index (a CPU has none); raise if the name is not a device."""
    try:
        result = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"a device must be named as in 'cpu' or 'cuda:0', got {device!r}"
        ) from error
    if result.type in ("cpu", "meta"):
        return torch.device(result.type)
    if result.index is None:
        # "cuda" means the current device; a tensor on it says "cuda:0".
        return existing_device(result)
    return result


def existing_device(device: torch.device) -> torch.device:
    """Return the device of a tensor made on ``device``; raise if the device does not exist."""
    try:
        return torch.empty(0, device=device).device
    except Exception as error:  # each backend raises its own exceptions
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"the device {device} must exist to be used: {reason}") from error


class Immutable:
    """An immutable object; copies are the object itself, including its streams."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True, init=False)
class DeviceSpec(Immutable):
    """A device, and streams to use on it instead of the default ones.

    Tiles on the base device of a :class:`BatchSpec` always work on the base stream. A spec is an
    immutable value: it compares by its contents, and copies are the spec itself. A spec with
    streams cannot be pickled, because streams belong to a process.

    Parameters
    ----------
    device : torch.device or str
    compute_stream : stream, optional
        The stream for computing. Default: the current stream at the time of the call.
    transfer_stream : stream, optional
        The stream for copies to and from the device. Default: one stream for each direction, which
        all operators of the process share.

    Raises
    ------
    ValueError
        If the device name is invalid, or a stream belongs to another device.
    TypeError
        If ``compute_stream`` or ``transfer_stream`` is not a stream.

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
        given = as_device(device)
        object.__setattr__(self, "device", given)
        streams = {"compute_stream": compute_stream, "transfer_stream": transfer_stream}
        for name, stream in streams.items():
            object.__setattr__(self, name, stream_of(f"DeviceSpec: {name}", stream, given))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes it; raises TypeError if it has streams."""
        refuse_to_pickle("DeviceSpec", self.compute_stream, self.transfer_stream)
        return DeviceSpec, (self.device,)


def stream_of(what: str, stream: object, device: torch.device) -> Stream | None:
    """Return the given stream, if any; raise if it does not belong to ``device``."""
    if stream is None:
        return None
    result = as_stream(what, stream)
    if isinstance(backend_of(device), HostBackend):
        raise ValueError(f"{what} must be left out for {device}, which has no streams")
    if result.device != device:
        raise ValueError(f"{what} must be a stream of {device}, got one of {result.device}")
    return result


def refuse_to_pickle(owner: str, *streams: Stream | None) -> None:
    """Raise a TypeError if there is a stream, because it is a handle of this process."""
    if any(stream is not None for stream in streams):
        raise TypeError(
            f"{owner}: streams belong to one process and must be given again in another, "
            "got streams to pickle"
        )

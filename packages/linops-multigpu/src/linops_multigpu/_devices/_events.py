"""RepeatedEvent: an event that can be recorded repeatedly."""

from __future__ import annotations

import torch

from ._device_spec import as_device
from ._streams import Event, Stream, as_stream, backend_of, recorded_on


class RepeatedEvent:
    """An event that can be recorded any number of times; each record makes a fresh event.

    The event that :meth:`record` returns stands for that point only, whatever is recorded later.
    Wait for it with ``stream.wait_event(token)``. A copy or an unpickled event has no record yet.
    Methods without a stream use the current stream of the device.

    Parameters
    ----------
    device : torch.device or str, optional
        Default: the current accelerator, or the CPU if there is none.

    Examples
    --------
    >>> start = RepeatedEvent()
    >>> token = start.record()
    >>> start.wait()
    >>> start.record() is token
    False
    """

    def __init__(self, device: torch.device | str | None = None) -> None:
        self.device = None if device is None else as_device(device)
        self._last: Event | None = None

    def record(self, stream: Stream | torch.Stream | None = None) -> Event:
        """Return a fresh event: the point at which ``stream`` has finished its work so far."""
        stream = self._stream(stream)
        self._last = event = recorded_on(stream, backend_of(stream.device))
        return event

    def wait(self, stream: Stream | torch.Stream | None = None) -> None:
        """Let ``stream`` wait for the last recorded event; the host continues.

        Raises
        ------
        RuntimeError
            If nothing has been recorded, because the device would not wait at all.
        """
        if self._last is None:
            raise RuntimeError("RepeatedEvent: wait must come after record, got no record yet")
        self._stream(stream).wait_event(self._last)

    def _stream(self, stream: object) -> Stream:
        if stream is None:
            device = self.device or _current_device()
            return backend_of(device).current_stream(device)
        return as_stream("RepeatedEvent: stream", stream)

    def __repr__(self) -> str:
        return f"RepeatedEvent({'not ' * (self._last is None)}recorded)"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy as an event that is not recorded: a point in a stream has no copy."""
        return RepeatedEvent, (self.device,)


def _current_device() -> torch.device:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return torch.device("cpu")
    return torch.device(accelerator.type, torch.accelerator.current_device_index())

"""Streams and events of all kinds of devices, behind one small interface.

The package uses streams only through a `StreamBackend`. So the same code runs on the devices of
`torch.accelerator`, on a CPU, and on simulated devices, which check the order.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Event(Protocol):
    """A point in the work of a stream that others can wait for; like :class:`torch.Event`."""

    def record(self, stream: Any, /) -> None:  # a stream of the same backend
        """Mark the point at which ``stream`` has finished its work so far."""

    def synchronize(self) -> None:
        """Let the host wait for the event."""


@runtime_checkable
class Stream(Protocol):
    """A queue of work on a device; like :class:`torch.Stream`."""

    @property
    def device(self) -> torch.device:
        """The device of the stream."""

    def wait_event(self, event: Any, /) -> None:  # an event of the same backend
        """Let all later work of the stream wait for ``event``; the host continues."""

    def synchronize(self) -> None:
        """Let the host wait for all work of the stream so far."""


class StreamBackend(Protocol):
    """The interface to the streams of a kind of device."""

    def current_stream(self, device: torch.device, /) -> Stream:
        """Return the current stream of ``device``."""

    def new_stream(self, device: torch.device, /) -> Stream:
        """Return a new stream of ``device``."""

    def new_event(self, device: torch.device, /) -> Event:
        """Return an event that has not been recorded."""

    def using(self, stream: Any, /) -> AbstractContextManager[None]:
        """Make ``stream``, one of this backend, the current one of its device inside the block."""

    def record_use(self, tensor: Tensor, stream: Any, /) -> None:
        """Keep the memory of ``tensor`` until ``stream`` has finished its work so far."""

    def can_reach(self, device: torch.device, peer: torch.device, /) -> bool:
        """Whether ``device`` has direct access to the memory of ``peer``."""

    def empty_pinned(self, like: Tensor, /) -> Tensor:
        """Return host memory for a copy of ``like``, without gaps, that the device can reach."""


class HostBackend:
    """Devices without streams: a CPU, and devices that have only shapes."""

    def current_stream(self, device: torch.device) -> Stream:
        return _HostStream(device)

    new_stream = current_stream

    def new_event(self, device: torch.device) -> Event:
        return HostEvent()

    def using(self, stream: Stream) -> AbstractContextManager[None]:
        return nullcontext()

    def record_use(self, tensor: Tensor, stream: Stream) -> None:
        pass

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        return device == peer

    def empty_pinned(self, like: Tensor) -> Tensor:
        return torch.empty_like(like, device="cpu")


class _AcceleratorBackend:
    """The streams of the accelerator that `torch.accelerator` finds."""

    def current_stream(self, device: torch.device) -> torch.Stream:
        return torch.accelerator.current_stream(device)

    def new_stream(self, device: torch.device) -> torch.Stream:
        return torch.Stream(device)

    def new_event(self, device: torch.device) -> torch.Event:
        return torch.Event(device)

    @contextmanager
    def using(self, stream: torch.Stream) -> Iterator[None]:
        # torch.Stream is a context manager, too, but only for one thread at a time.
        device = torch.accelerator.current_device_index()
        before = torch.accelerator.current_stream(stream.device)
        torch.accelerator.set_stream(stream)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)
            torch.accelerator.set_device_index(device)

    def record_use(self, tensor: Tensor, stream: torch.Stream) -> None:
        tensor.record_stream(stream)

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        if device.type != peer.type:
            return False
        # Only CUDA can be asked; for other devices torch chooses a route itself.
        return device.type != "cuda" or torch.cuda.can_device_access_peer(device, peer)

    def empty_pinned(self, like: Tensor) -> Tensor:
        return torch.empty_like(like, device="cpu", pin_memory=True)


def recorded_on(stream: Stream, backend: StreamBackend) -> Event:
    """Return a fresh event: the point at which ``stream`` has finished its work so far."""
    event = backend.new_event(stream.device)
    event.record(stream)
    return event


@dataclass(frozen=True)
class _HostStream:
    """The stream of a host: the calling thread."""

    device: torch.device

    def wait_event(self, event: Event) -> None:
        event.synchronize()  # waiting now makes all later work wait

    def synchronize(self) -> None:
        pass


class HostEvent:
    """An event on a host: it has happened as soon as it is recorded."""

    def record(self, stream: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


def as_stream(what: str, stream: object) -> Stream:
    """Return ``stream``; raise TypeError if it is not a stream."""
    if not isinstance(stream, Stream):
        raise TypeError(f"{what} must be a stream, got {stream!r}")
    return stream


_BACKENDS: dict[str, StreamBackend] = {}
_HOST, _ACCELERATOR = HostBackend(), _AcceleratorBackend()
# Known without asking for an accelerator. All work of "mps" runs on one queue, and torch keeps its
# order. The streams of "xpu" and others are found through `torch.accelerator`.
_WITHOUT_STREAMS = frozenset(["cpu", "meta", "mps"])


def register_backend(device_type: str, backend: StreamBackend) -> None:
    """Use ``backend`` for the streams of all devices of a type."""
    _BACKENDS[device_type] = backend


def backend_of(device: torch.device) -> StreamBackend:
    """Return the stream backend of ``device``."""
    backend = _BACKENDS.get(device.type)
    if backend is not None:
        return backend
    if device.type in _WITHOUT_STREAMS:
        return _HOST
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type == device.type:
        register_backend(device.type, _ACCELERATOR)  # permanently, because it will not disappear
        return _ACCELERATOR
    # A device that does not exist can only occur with fake tensors, which do no work.
    return _HOST


def kept_with_backend(
    make: Callable[[StreamBackend, Key], Made],
) -> Callable[[StreamBackend, Key], Made]:
    """Decorator: make an object once for each key, and keep it as long as the backend lives."""
    lock = threading.RLock()  # reentrant, because finding a route may start a transfer
    kept = weakref.WeakKeyDictionary[StreamBackend, dict[Key, Made]]()

    @wraps(make)
    def kept_or_made(backend: StreamBackend, key: Key) -> Made:
        with lock:
            made = kept.setdefault(backend, {})
            if key not in made:
                made[key] = make(backend, key)
            return made[key]

    return kept_or_made

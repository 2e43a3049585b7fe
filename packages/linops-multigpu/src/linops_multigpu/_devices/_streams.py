"""Streams and events of any kind of device, behind one small interface.

All that this package asks of streams goes through a `StreamBackend`, so that the same code runs on
what `torch.accelerator` knows, on a CPU, and on the simulated devices that prove the order right.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Event(Protocol):
    """A point in the work of a stream, to wait for; of the kind of :class:`torch.Event`."""

    def record(self, stream: Stream) -> None:
        """Be the point at which ``stream`` has done all that it was given so far."""

    def synchronize(self) -> None:
        """Let the host wait for it."""


@runtime_checkable
class Stream(Protocol):
    """A queue of work on a device; of the kind of :class:`torch.Stream`."""

    @property
    def device(self) -> torch.device:
        """Where it works."""

    def wait_event(self, event: Event) -> None:
        """Let what it is given from now on wait for ``event``; the host goes on."""

    def synchronize(self) -> None:
        """Let the host wait for all that it was given."""


class HostBackend:
    """Where what was called has happened: a CPU, and devices of which there are only shapes."""

    def current_stream(self, device: torch.device) -> Stream:
        """Return the stream on which the caller's work on ``device`` goes."""
        return _HostStream(device)

    new_stream = current_stream

    def new_event(self, device: torch.device) -> Event:
        """Return an event that has not been recorded."""
        return HostEvent()

    def using(self, stream: Stream) -> AbstractContextManager[None]:
        """Make ``stream`` the current one of its device inside the block."""
        return nullcontext()

    def record_use(self, tensor: Tensor, stream: Stream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given so far."""

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        """Whether ``device`` can read and write the memory of ``peer`` by itself."""
        return device == peer

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return host memory for a contiguous copy of ``like`` that the device can reach."""
        return torch.empty(like.shape, dtype=like.dtype, device="cpu")


class _AcceleratorBackend:
    """The streams of whatever `torch.accelerator` stands for here."""

    def current_stream(self, device: torch.device) -> Stream:
        return cast(Stream, torch.accelerator.current_stream(device))

    def new_stream(self, device: torch.device) -> Stream:
        return cast(Stream, torch.Stream(device))

    def new_event(self, device: torch.device) -> Event:
        return cast(Event, torch.Event(device))

    @contextmanager
    def using(self, stream: Stream) -> Iterator[None]:
        # A torch.Stream can make itself current, but for one thread at a time.
        device = torch.accelerator.current_device_index()
        before = torch.accelerator.current_stream(stream.device)
        torch.accelerator.set_stream(cast(torch.Stream, stream))
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)
            torch.accelerator.set_device_index(device)

    def record_use(self, tensor: Tensor, stream: Stream) -> None:
        tensor.record_stream(cast(torch.Stream, stream))

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        if device.type != peer.type:
            return False
        # Only CUDA says; of others torch takes care itself.
        return device.type != "cuda" or torch.cuda.can_device_access_peer(device, peer)

    def empty_pinned(self, like: Tensor) -> Tensor:
        return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=True)


StreamBackend: TypeAlias = HostBackend | _AcceleratorBackend
"""What a kind of device says of its streams; one of simulated devices has the same methods."""


def recorded_on(stream: Stream, backend: StreamBackend) -> Event:
    """Return a fresh event: the point at which ``stream`` has done what it was given so far."""
    event = backend.new_event(stream.device)
    event.record(stream)
    return event


@dataclass(frozen=True)
class _HostStream:
    """The thread that calls."""

    device: torch.device

    def wait_event(self, event: Event) -> None:
        event.synchronize()  # what comes next on this stream is what comes next

    def synchronize(self) -> None:
        pass


class HostEvent:
    """A point that is past when it is recorded."""

    def record(self, stream: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


def as_stream(what: str, stream: object) -> Stream:
    """Return ``stream``; refuse what is none with a TypeError."""
    if not isinstance(stream, Stream):
        raise TypeError(f"{what} must be a stream, got {stream!r}")
    return stream


_BACKENDS: dict[str, StreamBackend] = {}
_HOST, _ACCELERATOR = HostBackend(), _AcceleratorBackend()
# All work of "mps" goes on one queue, in which torch keeps the order.
_WITHOUT_STREAMS = frozenset(["cpu", "meta", "mps"])


def register_backend(device_type: str, backend: StreamBackend) -> None:
    """Have the streams of all devices of a type go through ``backend``."""
    _BACKENDS[device_type] = backend


def backend_of(device: torch.device) -> StreamBackend:
    """Return what knows the streams of ``device``."""
    backend = _BACKENDS.get(device.type)
    if backend is not None:
        return backend
    if device.type in _WITHOUT_STREAMS:
        return _HOST
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type == device.type:
        register_backend(device.type, _ACCELERATOR)  # for good: it does not go away
        return _ACCELERATOR
    # A device that is not there can only be that of fake tensors, whose work is never done.
    return _HOST


def kept_with_backend(
    make: Callable[[StreamBackend, Key], Made],
) -> Callable[[StreamBackend, Key], Made]:
    """Return a function that makes something once for each key, and keeps it with the backend."""
    lock = threading.RLock()  # to find a route can take a transfer
    kept = weakref.WeakKeyDictionary[StreamBackend, dict[Key, Made]]()

    @wraps(make)
    def found(backend: StreamBackend, key: Key) -> Made:
        with lock:
            made = kept.setdefault(backend, {})
            if key not in made:
                made[key] = make(backend, key)
            return made[key]

    return found

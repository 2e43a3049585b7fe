"""Copies between devices: issued on streams, in order, and safe for the owners of the memory.

Each end of a copy has a copy stream, so that both devices go on computing. Memory belongs to the
stream on which it was allocated. The allocator reuses freed memory for later work on that stream,
and does not know of uses on other streams. So before memory is freed, its stream must have waited
for all uses on other streams, or `record_use` must have told the allocator about them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from linops_split.siblings import memory_order

from .._private_torch import FakeTensor, active_fake_mode
from ._device_spec import existing_device
from ._staging import buffers_for, pieces
from ._stream_pool import DeviceStreams
from ._streams import (
    Event,
    HostBackend,
    StreamBackend,
    backend_of,
    kept_with_backend,
    recorded_on,
)

_LOG = logging.getLogger("linops_multigpu")
_LOG_OF_EACH = logging.getLogger("linops_multigpu.transfers")


class Route(Enum):
    """The way of the bytes; the value is the text for the log."""

    NONE = "nothing to send"
    TORCH = "by torch"  # for devices without streams: a CPU, shapes without values
    TO_DEVICE = "host to device"
    TO_HOST = "device to host"
    DIRECT = "device to device"
    STAGED = "through pinned host memory"


def route_between(source: torch.device, destination: torch.device) -> Route:
    """Return the route between two devices; warn once if it goes through the host."""
    if source == destination:
        return Route.NONE
    if active_fake_mode() is not None:
        return Route.TORCH
    return _route(backend_of(source), (source, destination))


@kept_with_backend
def _route(backend: StreamBackend, ends: tuple[torch.device, torch.device]) -> Route:
    source, destination = ends
    is_from_host = isinstance(backend, HostBackend)
    is_to_host = isinstance(backend_of(destination), HostBackend)
    if is_from_host and is_to_host:
        existing_device(destination)
    if is_from_host or is_to_host:
        if is_from_host is is_to_host or "cpu" not in (source.type, destination.type):
            return Route.TORCH
        return Route.TO_DEVICE if is_from_host else Route.TO_HOST
    if not backend.can_reach(source, destination):
        reason = "there is no peer access"
    elif not _arrives_as_sent(source, destination):
        reason = "a test transfer between them arrived corrupted"
    else:
        return Route.DIRECT
    _LOG.warning(
        "transfers from %s to %s go through pinned host memory: %s", source, destination, reason
    )
    return Route.STAGED


# Words without a pattern, so that lost, exchanged or repeated words are noticed. A quarter of a
# mebibyte is more than one packet of any bus.
_N_WORDS, _MIX = 1 << 15, -7046029254386353131


def _arrives_as_sent(source: torch.device, destination: torch.device) -> bool:
    with torch.no_grad():
        sent = torch.arange(1, _N_WORDS + 1, device="cpu").mul_(_MIX)
        # The target starts with other values, otherwise a copy that does nothing might pass.
        arrived = torch.zeros_like(sent).to(destination)
        arrived.copy_(sent.to(source))
        return torch.equal(arrived.cpu(), sent)


@dataclass(slots=True)
class Transfer:
    """A copy that was issued and may not be finished; call ``receive``, then ``release``."""

    sent: Tensor
    source: DeviceStreams
    destination: DeviceStreams
    copy: Tensor
    """The result; its memory belongs to the stream for incoming copies."""
    arrived: Event | None = None
    """The event after which the copy has its values; None if it has them already."""
    departed: Event | None = None
    """The event after which the source has been read; None if it has been read already."""

    def receive(self) -> Tensor:
        """Return the result; the compute stream of the destination waits for it."""
        target = self.destination
        if self.arrived is not None:
            target.compute.wait_event(self.arrived)
        target.backend.record_use(self.copy, target.compute)
        return self.copy

    def release(self) -> None:
        """Let the compute stream of the source wait until x has been read; then x may change."""
        if self.departed is not None:
            self.source.compute.wait_event(self.departed)


def send(x: Tensor, source: DeviceStreams, destination: DeviceStreams) -> Tensor:
    """Return ``x`` at the destination; the compute streams may use both at once."""
    transfer = issue(x, source, destination)
    result = transfer.receive()
    transfer.release()
    return result


def issue(
    x: Tensor,
    source: DeviceStreams,
    destination: DeviceStreams,
    *,
    ready: Event | None = None,
    into: Tensor | None = None,
    vacant: Event | None = None,
) -> Transfer:
    """Start a copy of ``x`` on the copy streams; autograd does not follow it.

    It starts when x is ``ready`` and ``into`` is ``vacant`` (memory on another device with
    streams). Default: when the compute stream there has finished its work so far.
    """
    if x.device != source.device:
        raise ValueError(f"a vector to send must be on {source.device}, got {x.device}")
    fake = isinstance(x, FakeTensor)
    route = Route.TORCH if fake else route_between(source.device, destination.device)
    way = source.device, destination.device
    _LOG_OF_EACH.debug("%s -> %s: %d bytes, %s", *way, x.nbytes, route.value)
    with torch.no_grad():
        x = x.detach()
        if route in (Route.NONE, Route.TORCH):
            received = x.to(destination.device) if into is None else into.copy_(x)
            return Transfer(x, source, destination, received)
        if x.is_conj() or x.is_neg():
            # A copy of bytes would lose the lazy conjugation and negation.
            if ready is not None:
                source.compute.wait_event(ready)
            with source.backend.using(source.compute):
                x, ready = x.resolve_conj().resolve_neg(), None
        if route is not Route.TO_DEVICE:
            source.outgoing.wait_event(ready or recorded_on(source.compute, source.backend))
        if route is Route.TO_HOST:
            received, arrived = _to_host(x, source)
            return Transfer(x, source, destination, received, arrived, departed=arrived)
        with destination.backend.using(destination.incoming):
            if into is None:
                into = torch.empty_like(x, device=destination.device, requires_grad=False)
            else:
                vacant = vacant or recorded_on(destination.compute, destination.backend)
                destination.incoming.wait_event(vacant)
            copied = _direct if route is Route.DIRECT else _through_pinned
            arrived, departed = copied(x, into, source, destination)
    return Transfer(x, source, destination, into, arrived, departed)


def _direct(
    x: Tensor, out: Tensor, source: DeviceStreams, destination: DeviceStreams
) -> tuple[Event, Event]:
    """Copy on streams that already wait for both ends; return when it arrived and departed."""
    # torch makes the current streams of the two ends wait for each other, so both must be copy
    # streams. That of the destination is current already.
    with source.backend.using(source.outgoing):
        out.copy_(x, non_blocking=True)
    arrived = recorded_on(destination.incoming, destination.backend)
    return arrived, arrived


def _through_pinned(
    x: Tensor, out: Tensor, source: DeviceStreams, destination: DeviceStreams
) -> tuple[Event, Event | None]:
    is_from_host = isinstance(source.backend, HostBackend)
    order = memory_order(out)
    with buffers_for(destination.device, destination.backend) as buffers:
        for piece, target in pieces(x.permute(order), out.permute(order)):
            buffer = next(buffers)
            pinned = buffer.room_for(piece, destination.backend)
            buffer.await_on(source.outgoing)
            with source.backend.using(source.outgoing):
                pinned.copy_(piece, non_blocking=True)
            if not is_from_host:
                filled = recorded_on(source.outgoing, source.backend)
                buffer.is_busy_until(filled)  # in case the next copy does not start
                destination.incoming.wait_event(filled)
            if not target.is_contiguous():
                # With gaps, torch copies through a temporary and may read it too early.
                pinned = pinned.to(target.device, non_blocking=True)
            target.copy_(pinned, non_blocking=True)
            buffer.is_busy_until(recorded_on(destination.incoming, destination.backend))
    arrived = recorded_on(destination.incoming, destination.backend)
    if is_from_host:
        return arrived, None
    return arrived, recorded_on(source.outgoing, source.backend)


def _to_host(x: Tensor, source: DeviceStreams) -> tuple[Tensor, Event]:
    # Make new pinned memory each time, because the caller may keep the result.
    pinned = source.backend.empty_pinned(x)
    with source.backend.using(source.outgoing):
        pinned.copy_(x, non_blocking=True)
    return pinned, recorded_on(source.outgoing, source.backend)

"""The streams that all operators of a process share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ._device_spec import DeviceSpec
from ._streams import Stream, StreamBackend, backend_of, kept_with_backend, recorded_on


@dataclass(frozen=True, slots=True)
class DeviceStreams:
    """A device and its streams for one call: for computing, for incoming and outgoing copies."""

    device: torch.device
    backend: StreamBackend
    compute: Stream
    incoming: Stream
    outgoing: Stream


def streams_on(
    device: torch.device, spec: DeviceSpec | None = None, peer: torch.device | None = None
) -> DeviceStreams:
    """Return the streams to use now: the current one for computing, and shared ones for copies.

    ``spec`` may name other streams. ``peer`` is the device at the other end of the copies; each
    peer has its own streams, so that copies to different devices do not wait for each other.
    """
    backend = backend_of(device)
    compute = None if spec is None else spec.compute_stream
    if compute is None:
        compute = backend.current_stream(device)
    if spec is None or spec.transfer_stream is None:
        incoming, outgoing = _pair(backend, (device, peer))
    else:
        incoming = outgoing = spec.transfer_stream
    return DeviceStreams(device, backend, compute, incoming, outgoing)


@kept_with_backend
def _pair(
    backend: StreamBackend, way: tuple[torch.device, torch.device | None]
) -> tuple[Stream, Stream]:
    return backend.new_stream(way[0]), backend.new_stream(way[0])


def follow_caller(streams: DeviceStreams) -> None:
    """Let the compute stream wait for the current stream, if they differ."""
    current = streams.backend.current_stream(streams.device)
    if streams.compute != current:
        streams.compute.wait_event(recorded_on(current, streams.backend))


def let_caller_follow(streams: DeviceStreams, result: Tensor | None = None) -> None:
    """Let the current stream wait for the compute stream, and mark the result as used on it."""
    current = streams.backend.current_stream(streams.device)
    if streams.compute != current:
        current.wait_event(recorded_on(streams.compute, streams.backend))
        if result is not None:
            streams.backend.record_use(result, current)

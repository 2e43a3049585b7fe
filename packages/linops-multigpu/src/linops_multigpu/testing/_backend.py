"""Simulated devices as a kind of device that this package works on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

import torch
from torch import Tensor

from linops_multigpu._devices._streams import Event, Stream

from ._queue import SimStream
from ._world import World


class SimBackend:
    """The streams of one machine; what is kept for it goes with it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def current_stream(self, device: torch.device) -> Stream:
        """Return the stream on which the caller's work on ``device`` goes."""
        return cast(Stream, self._world.current_stream(device))

    def new_stream(self, device: torch.device) -> Stream:
        """Return a stream of its own."""
        return cast(Stream, self._world.new_stream(device))

    def new_event(self, device: torch.device) -> Event:
        """Return an event that has not been recorded."""
        return cast(Event, self._world.new_event())

    def using(self, stream: Stream) -> AbstractContextManager[object]:
        """Make ``stream`` the current one of its device inside the block."""
        return self._world.using(cast(SimStream, stream))

    def record_use(self, tensor: Tensor, stream: Stream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given so far."""
        self._world.record_use(tensor, cast(SimStream, stream))

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        """Whether ``device`` can read and write the memory of ``peer`` by itself."""
        return device.type == peer.type and self._world.can_reach(device, peer)

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return host memory for a contiguous copy of ``like`` that the device can reach."""
        return self._world.empty_pinned(like)

"""Simulated devices as a kind of device that this package works on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

import torch
from torch import Tensor

from linops_multigpu._streams import Event, Stream

from ._active import active_world
from ._queue import SimStream


class SimBackend:
    """The streams of the machine that is simulated at the moment."""

    def current_stream(self, device: torch.device) -> Stream:
        """Return the stream on which the caller's work on ``device`` goes."""
        return cast(Stream, active_world().current_stream(device))

    def new_stream(self, device: torch.device) -> Stream:
        """Return a stream of its own."""
        return cast(Stream, active_world().new_stream(device))

    def new_event(self, device: torch.device) -> Event:
        """Return an event that has not been recorded."""
        return cast(Event, active_world().new_event())

    def using(self, stream: Stream) -> AbstractContextManager[object]:
        """Make ``stream`` the current one of its device inside the block."""
        return active_world().using(cast(SimStream, stream))

    def record_use(self, tensor: Tensor, stream: Stream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given so far."""
        active_world().record_use(tensor, cast(SimStream, stream))

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        """Whether ``device`` can read and write the memory of ``peer`` by itself."""
        return device.type == peer.type and active_world().can_reach(device, peer)

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return host memory for a contiguous copy of ``like`` that the device can reach."""
        return active_world().host_memory.empty_pinned(like)

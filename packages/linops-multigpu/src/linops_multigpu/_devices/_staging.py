"""Pinned host memory for transfers to a device, which may read it after the call returns.

The caller may then change its own memory. So vectors are copied piece by piece through two pinned
buffers in turn: the host fills one while the device empties the other.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ._streams import Event, Stream, StreamBackend, kept_with_backend

PIECE_NBYTES = 1 << 25
"""The largest piece in bytes; so large that starting a copy costs nothing in comparison."""


class PinnedBuffer:
    """Pinned memory for one piece, used repeatedly."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._free: Event | None = None

    def is_busy_until(self, event: Event) -> None:
        """Note that devices use the memory until ``event``."""
        self._free = event

    def await_on(self, stream: Stream) -> None:
        """Let ``stream`` wait until no device uses the memory."""
        if self._free is not None:
            stream.wait_event(self._free)

    def room_for(self, piece: Tensor, backend: StreamBackend) -> Tensor:
        """Return memory for a contiguous copy of ``piece``."""
        if self._memory is None or self._memory.numel() < piece.nbytes:
            if self._free is not None:
                self._free.synchronize()
            size = 1 << (piece.nbytes - 1).bit_length()
            # A tensor made in inference mode could not be written to outside of it.
            with torch.inference_mode(False):
                self._memory = backend.empty_pinned(
                    torch.empty(size, dtype=torch.uint8, device="meta")
                )
        return self._memory[: piece.nbytes].view(piece.dtype).view(piece.shape)


@kept_with_backend
def _buffers(
    backend: StreamBackend, device: torch.device
) -> tuple[threading.Lock, Iterator[PinnedBuffer]]:
    return threading.Lock(), itertools.cycle([PinnedBuffer(), PinnedBuffer()])


@contextmanager
def buffers_for(device: torch.device, backend: StreamBackend) -> Iterator[Iterator[PinnedBuffer]]:
    """Lend the two buffers of a device to one transfer, as an endless alternating iterator."""
    lock, turns = _buffers(backend, device)
    with lock:
        yield turns  # the least recently used buffer comes first


def pieces(x: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield matching parts of both tensors, none of them empty or larger than a piece."""
    if x.nbytes <= PIECE_NBYTES:
        if x.numel():
            yield x, out
        return
    axis = next(axis for axis, size in enumerate(x.shape) if size > 1)
    n_rows = max(1, PIECE_NBYTES * x.shape[axis] // x.nbytes)
    for part in zip(x.split(n_rows, axis), out.split(n_rows, axis), strict=True):
        yield from pieces(*part)

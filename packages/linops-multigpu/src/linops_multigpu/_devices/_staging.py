"""Pinned host memory on the way to a device, which may read it only after the caller went on.

So vectors go through memory of our own, piece by piece, through two buffers by turns: while the
device empties one the host fills the other.
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
"""How long a piece is at most; long enough that starting a copy costs nothing beside it."""


class Buffer:
    """Pinned memory for one piece, which is used again and again."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._free: Event | None = None

    def is_busy_until(self, event: Event) -> None:
        """Note that devices have work with the memory, which is done at ``event``."""
        self._free = event

    def await_on(self, stream: Stream) -> None:
        """Let ``stream`` wait until no device has work with the memory."""
        if self._free is not None:
            stream.wait_event(self._free)

    def room_for(self, piece: Tensor, backend: StreamBackend) -> Tensor:
        """Return memory for a contiguous copy of ``piece``."""
        if self._memory is None or self._memory.numel() < piece.nbytes:
            if self._free is not None:
                self._free.synchronize()
            size = 1 << (piece.nbytes - 1).bit_length()
            # One made in inference mode could not be written to outside of it.
            with torch.inference_mode(False):
                self._memory = backend.empty_pinned(
                    torch.empty(size, dtype=torch.uint8, device="meta")
                )
        return self._memory[: piece.nbytes].view(piece.dtype).view(piece.shape)


@kept_with_backend
def _buffers(
    backend: StreamBackend, device: torch.device
) -> tuple[threading.Lock, Iterator[Buffer]]:
    return threading.Lock(), itertools.cycle([Buffer(), Buffer()])


@contextmanager
def buffers_for(device: torch.device, backend: StreamBackend) -> Iterator[Iterator[Buffer]]:
    """Lend the two buffers of a device to one transfer, by turns and without end."""
    lock, turns = _buffers(backend, device)
    with lock:
        yield turns  # the one that has waited longest is first


def pieces(x: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the same parts of both, none of them empty or longer than a piece."""
    if x.nbytes <= PIECE_NBYTES:
        if x.numel():
            yield x, out
        return
    axis = next(axis for axis, size in enumerate(x.shape) if size > 1)
    n_rows = max(1, PIECE_NBYTES * x.shape[axis] // x.nbytes)
    for part in zip(x.split(n_rows, axis), out.split(n_rows, axis), strict=True):
        yield from pieces(*part)

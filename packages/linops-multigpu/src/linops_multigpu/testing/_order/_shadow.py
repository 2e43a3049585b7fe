"""What was last done to each byte of some memory, and whether the next access comes after it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ._clock import Clock

Bytes: TypeAlias = slice | NDArray[np.int64]
"""Positions of bytes, each one once: what indexes an array with an entry per byte."""


class Conflict(NamedTuple):
    """An earlier access that nothing orders before the one that was asked about."""

    actor: int
    time: int
    wrote: bool
    nbytes: int


class Shadow:
    """For each byte the last write, and the last read by each actor since.

    ``place`` is the device that the memory is on, for messages.
    """

    def __init__(self, nbytes: int, place: str) -> None:
        self.place = place
        self._writer = np.zeros(nbytes, np.int32)
        self._written = np.zeros(nbytes, np.int64)  # at no time, which is before everything
        self._read: dict[int, NDArray[np.int64]] = {}

    def conflict(self, touched: Bytes, clock: Clock, *, writes: bool) -> Conflict | None:
        """Return an access to some of the bytes that ``clock`` does not know of, if there is one.

        Two reads are never in conflict.
        """
        writers, written = self._writer[touched], self._written[touched]
        if written.size == 0:
            return None
        known = np.array([clock.get(actor, 0) for actor in range(int(writers.max()) + 1)])
        late = written > known[writers]
        if late.any():
            first = int(late.argmax())
            return Conflict(int(writers[first]), int(written[first]), True, int(late.sum()))
        for actor, times in self._read.items() if writes else ():
            late = times[touched] > clock.get(actor, 0)
            if late.any():
                time = int(times[touched][late].max())
                return Conflict(actor, time, False, int(late.sum()))
        return None

    def note(self, touched: Bytes, actor: int, time: int, *, writes: bool) -> None:
        """Remember an access; a write comes after all others, which are forgotten."""
        if not writes:
            if actor not in self._read:
                self._read[actor] = np.zeros(len(self._written), np.int64)
            self._read[actor][touched] = time
            return
        self._writer[touched] = actor
        self._written[touched] = time
        for times in self._read.values():
            times[touched] = 0


def bytes_of(tensor: Tensor, address: int) -> Bytes:
    """Return the bytes that a tensor's elements occupy, counted from ``address``.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(2, 3, dtype=torch.int16)
    >>> bytes_of(x[1:], x.data_ptr())
    slice(6, 12, None)
    >>> bytes_of(x[:, 1], x.data_ptr())
    array([2, 3, 8, 9])
    """
    start = tensor.data_ptr() - address
    itemsize = tensor.element_size()
    if tensor.numel() == 0:
        return slice(0, 0)
    if tensor.is_contiguous():
        return slice(start, start + tensor.numel() * itemsize)
    elements = np.zeros((), np.int64)
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements = elements[..., None] + np.arange(length, dtype=np.int64) * stride
    # An expanded dimension touches the same element again.
    starts = np.unique(elements) * itemsize + start
    return (starts[:, None] + np.arange(itemsize)).ravel()

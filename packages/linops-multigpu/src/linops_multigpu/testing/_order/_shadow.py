"""What was last done to each byte of some memory, and whether the next access comes after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Bytes: TypeAlias = slice | NDArray[np.int64]
"""Positions of bytes, each one once: what indexes an array with an entry per byte."""


class Conflict(NamedTuple):
    """An earlier access that nothing orders before the one that was asked about."""

    actor: int
    time: int
    wrote: bool
    nbytes: int


class Shadow:
    """When each actor last wrote and read each byte; what came before the last write is forgotten.

    The memory begins at ``address``; ``place`` is the device that it is on, for messages.
    """

    def __init__(self, nbytes: int, place: str, address: int = 0) -> None:
        self.place, self.nbytes, self.address = place, nbytes, address
        # Times of an actor, one per byte; zero is never.
        self._written: dict[int, NDArray[np.int64]] = {}
        self._read: dict[int, NDArray[np.int64]] = {}

    def conflict(
        self, touched: Bytes, clock: Mapping[int, int], *, writes: bool
    ) -> Conflict | None:
        """Return an access that ``clock`` does not know of; two reads are never in conflict."""
        accesses = [(actor, times, True) for actor, times in self._written.items()]
        if writes:
            accesses += [(actor, times, False) for actor, times in self._read.items()]
        for actor, times, wrote in accesses:
            late = times[touched] > clock.get(actor, 0)
            if late.any():
                return Conflict(actor, int(times[touched].max()), wrote, int(late.sum()))
        return None

    def note(self, touched: Bytes, actor: int, time: int, *, writes: bool) -> None:
        """Remember an access; a write comes after all others, which are forgotten."""
        if writes:
            for times in (*self._written.values(), *self._read.values()):
                times[touched] = 0
        own = self._written if writes else self._read
        if actor not in own:
            own[actor] = np.zeros(self.nbytes, np.int64)
        own[actor][touched] = time


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

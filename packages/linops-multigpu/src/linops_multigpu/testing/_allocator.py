"""Memory of simulated devices, as a caching allocator hands it out.

Freed memory goes to a pool of the stream that it was allocated on, and from there to the next
tensor of that size on that stream: at once, in the order in which the host asks. Who used it on
another stream must have said so, or have made the first stream wait.
"""

from __future__ import annotations

from bisect import bisect_right

import torch
from torch import Tensor

from ._clock import Clock, learn
from ._queue import Marker, SimStream
from ._shadow import Shadow

POISON = 0xFF  # as bytes of floating point numbers: not a number


class Block:
    """Memory of one storage, and of those that come after it.

    Parameters
    ----------
    stream : SimStream
        On which it was allocated.
    nbytes : int
    """

    def __init__(self, stream: SimStream, nbytes: int) -> None:
        self.stream = stream
        self.nbytes = nbytes
        with torch.inference_mode(False):
            self.memory: Tensor = torch.full((nbytes,), POISON, dtype=torch.uint8)
        self.address = self.memory.data_ptr()
        self.shadow = Shadow(nbytes)
        self.users: dict[SimStream, None] = {}
        self.in_use: list[Marker] = []

    def renew(self) -> None:
        """Begin another life, as if allocating it had written it."""
        self.shadow = Shadow(self.nbytes)
        actor = self.stream.actor
        self.shadow.note_write(slice(None), actor.number, len(actor.actions))


class Allocator:
    """The memory of one device.

    Parameters
    ----------
    device : torch.device
    limit : int, optional
        Bytes that it has.
    """

    def __init__(self, device: torch.device, limit: int | None) -> None:
        self._device = device
        self._limit = limit
        self.allocated = 0
        self.peak = 0
        self._reserved = 0
        self._cache: dict[tuple[int, int], list[Block]] = {}
        self._blocks: dict[int, Block] = {}
        self._addresses: list[int] | None = None

    def take(self, stream: SimStream, nbytes: int) -> tuple[Block, bool]:
        """Return memory that is used by nobody, and whether it was used before.

        Raises
        ------
        torch.OutOfMemoryError
            If there is not enough.
        """
        block = self._cached(stream, nbytes)
        reused = block is not None
        if block is None:
            self._make_room(nbytes)
            block = Block(stream, nbytes)
            self._reserved += nbytes
            self._blocks[block.address] = block
            self._addresses = None
        self.allocated += nbytes
        self.peak = max(self.peak, self.allocated)
        return block, reused

    def give_back(self, block: Block, in_use: list[Marker]) -> None:
        """Let memory be used again once all markers are reached."""
        self.allocated -= block.nbytes
        block.users.clear()
        block.in_use = in_use
        key = block.stream.actor.number, block.nbytes
        self._cache.setdefault(key, []).append(block)

    def block_at(self, address: int) -> Block:
        """Return the memory that ``address`` is in.

        Raises
        ------
        RuntimeError
            If it is none of this device, but of one that was simulated before.
        """
        block = self._blocks.get(address)
        if block is None:  # a storage of a part of a storage has another address
            if self._addresses is None:
                self._addresses = sorted(self._blocks)
            position = bisect_right(self._addresses, address)
            block = self._blocks[self._addresses[position - 1]] if position else None
        if block is None or address >= block.address + block.nbytes:
            raise RuntimeError(
                f"simulated: a tensor must be of the machine that is simulated now, got one on a "
                f"{self._device} of before"
            )
        return block

    def _cached(self, stream: SimStream, nbytes: int) -> Block | None:
        blocks = self._cache.get((stream.actor.number, nbytes), [])
        for position, block in enumerate(blocks):
            if all(marker.reached for marker in block.in_use):
                return blocks.pop(position)
        return None

    def _make_room(self, nbytes: int) -> None:
        if self._limit is None or self._reserved + nbytes <= self._limit:
            return
        # What streams still use goes too: a real allocator waits for them here.
        for block in (block for blocks in self._cache.values() for block in blocks):
            self._reserved -= block.nbytes
            del self._blocks[block.address]
        self._cache.clear()
        self._addresses = None
        if self._reserved + nbytes > self._limit:
            raise torch.OutOfMemoryError(
                f"{self._device} out of memory: tried to allocate {nbytes} bytes, "
                f"of {self._limit} bytes {self.allocated} are allocated"
            )


def known_after(block: Block, markers: list[Marker]) -> Clock:
    """Return what has happened when the stream of ``block`` and all markers got there."""
    clock = dict(block.stream.actor.clock)
    for marker in markers:
        learn(clock, marker.clock)
    return clock

"""Memory of simulated devices, with a caching allocator, and tracked memory of the host.

Freed memory goes to the next tensor of that size on the stream that allocated it: at once, in the
order in which the host asks. Uses on other streams must be recorded or waited for.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from collections.abc import Sequence
from functools import partial
from operator import attrgetter

import torch
from torch import Tensor

from .._device import conjugated_like, tensor_over, without_memory
from .._order import Shadow, calling_line, learn
from ._streams import Scheduler, SimStream, Task

POISON = 0xFF  # as bytes of floating point numbers: not a number
_BY_ADDRESS = attrgetter("address")
_AS_STRIDED = torch.ops.aten.as_strided.default


class Block:
    """Memory of one storage that ``stream`` allocated, reused for later storages."""

    def __init__(self, stream: SimStream, nbytes: int) -> None:
        self.stream = stream
        self.nbytes = nbytes
        with torch.inference_mode(False):
            self.memory: Tensor = torch.full((nbytes,), POISON, dtype=torch.uint8)
        self.address = self.memory.data_ptr()
        self.shadow = Shadow(nbytes, str(stream.device), self.address)
        self.users: dict[SimStream, None] = {}
        self.awaits: list[Task] = []  # a freed block is in use until these are done


class SimMemory:
    """The memory of one device, with a limit in bytes."""

    def __init__(self, device: torch.device, limit: int | None, scheduler: Scheduler) -> None:
        self._device = device
        self._limit = limit
        self._scheduler = scheduler
        self._blocks: list[Block] = []  # by address
        self._free: list[Block] = []
        self.allocated = 0
        self.peak = 0

    def empty(
        self, stream: SimStream, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Return a new tensor, for work on ``stream``; its values are NaN."""
        last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        nbytes = (last + 1) * dtype.itemsize if all(size) else 0
        if nbytes == 0:
            made = tensor_over(torch.empty(0, dtype=torch.uint8), dtype, self._device.index)
        else:
            block = self._allocated(stream, nbytes)
            made = tensor_over(block.memory, dtype, self._device.index)
            weakref.finalize(made.untyped_storage(), self._release, block).atexit = False
        laid_out: Tensor = without_memory(_AS_STRIDED, (made, size, stride), {})
        return laid_out

    def block_of(self, tensor: Tensor) -> Block:
        """Return the memory of a tensor with elements."""
        # The storage of a slice of a storage starts inside of a block.
        return self.block_at(tensor.untyped_storage().data_ptr())

    def block_at(self, address: int) -> Block:
        """Return the block that contains ``address``."""
        position = bisect_right(self._blocks, address, key=_BY_ADDRESS)
        block = self._blocks[position - 1] if position else None
        if block is None or address >= block.address + block.nbytes:
            raise RuntimeError(
                f"simulated: a tensor must belong to the machine that is simulated now, got one on "
                f"{self._device} of an earlier machine"
            )
        return block

    def twin(self, tensor: Tensor) -> Tensor:
        """Return a host tensor that shares the memory of a tensor of the device."""
        if tensor.numel() == 0:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        block = self.block_of(tensor)
        # Slice the storage first, because it may not start at a multiple of the element size.
        storage = block.memory.untyped_storage()[tensor.data_ptr() - block.address :]
        plain = torch.empty(0, dtype=tensor.dtype)
        return conjugated_like(plain.set_(storage, 0, tensor.size(), tensor.stride()), tensor)

    def record_use(self, tensor: Tensor, stream: SimStream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` has finished its work so far."""
        if tensor.untyped_storage().nbytes():
            self.block_of(tensor).users[stream] = None

    def _allocated(self, stream: SimStream, nbytes: int) -> Block:
        """Return unused memory; for the checker, ``stream`` has written it."""
        for block in self._free:
            fits = block.stream is stream and block.nbytes == nbytes
            if fits and all(point.done for point in block.awaits):
                self._free.remove(block)
                self._scheduler.give(stream, Task(run=partial(block.memory.fill_, POISON)))
                break
        else:
            self._make_room(nbytes)
            block = Block(stream, nbytes)
            insort(self._blocks, block, key=_BY_ADDRESS)
        self.allocated += nbytes
        self.peak = max(self.peak, self.allocated)
        block.shadow = Shadow(nbytes, str(self._device), block.address)
        self._scheduler.checker.begin(stream.actor, "allocation")
        self._scheduler.checker.access(stream.actor, block.shadow, block.memory, [block.memory])
        return block

    def _make_room(self, nbytes: int) -> None:
        reserved = self.allocated + sum(block.nbytes for block in self._free)
        if self._limit is None or reserved + nbytes <= self._limit:
            return
        # Also drop blocks that streams still use; a real allocator would wait for them here.
        self._blocks = [block for block in self._blocks if block not in self._free]
        self._free.clear()
        if self.allocated + nbytes > self._limit:
            raise torch.OutOfMemoryError(
                f"{self._device} out of memory: tried to allocate {nbytes} bytes; "
                f"{self.allocated} of {self._limit} bytes are allocated"
            )

    def _release(self, block: Block) -> None:
        # torch may free memory in any thread, also while an exception is raised.
        self._scheduler.left.append(partial(self._take_back, block, calling_line()))

    def _take_back(self, block: Block, line: str) -> None:
        """Make a block available again, whose last tensor was freed at a source line."""
        checker, actor = self._scheduler.checker, block.stream.actor
        checker.begin(actor, "free", line)
        clock = dict(actor.clock)
        block.awaits = [Task() for _ in block.users]
        for user, point in zip(block.users, block.awaits, strict=True):
            learn(clock, user.actor.clock)
            self._scheduler.give(user, point)
        checker.compare(actor, block.shadow, slice(None), clock, "free")
        self.allocated -= block.nbytes
        block.users.clear()
        self._free.append(block)


class HostMemory:
    """Storages of the host that are pinned or were used by a device."""

    def __init__(self) -> None:
        self._storages: dict[Shadow, weakref.ref[torch.UntypedStorage]] = {}
        self._pinned: set[Shadow] = set()

    def pin(self, fresh: Tensor) -> Tensor:
        """Return a tensor whose storage counts as pinned from now on, filled with NaN."""
        # Old contents must not look like a finished copy.
        torch.empty(0, dtype=torch.uint8).set_(fresh.untyped_storage()).fill_(POISON)
        self._pinned.add(self.track(fresh))
        return fresh

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether copies between a device and ``tensor`` run asynchronously."""
        return self.find(tensor) in self._pinned

    def track(self, tensor: Tensor) -> Shadow:
        """Return the access history of the storage of ``tensor``; start one if there is none."""
        shadow = self.find(tensor)
        if shadow is None:
            storage = tensor.untyped_storage()
            shadow = Shadow(storage.nbytes(), "cpu", storage.data_ptr())
            self._storages[shadow] = weakref.ref(storage)
        return shadow

    def find(self, tensor: Tensor) -> Shadow | None:
        """Return the access history of the storage of ``tensor``, if there is one."""
        self._storages = {key: ref for key, ref in self._storages.items() if ref() is not None}
        self._pinned.intersection_update(self._storages)
        # Sparse tensors have no address.
        if tensor.device.type == "cpu" and tensor.layout == torch.strided:
            for shadow in self._storages:
                if shadow.address <= tensor.data_ptr() < shadow.address + shadow.nbytes:
                    return shadow
        return None

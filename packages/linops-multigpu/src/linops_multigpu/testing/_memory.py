"""Tensors on simulated devices, and the memory of the host that stands for theirs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._allocator import POISON, Allocator, Block, known_after
from ._clock import Action
from ._dlpack import tensor_over
from ._queue import Marker, SimStream, Task
from ._registration import conjugated_like, without_memory
from ._source import calling_line

if TYPE_CHECKING:
    from ._machine import Machine

_AS_STRIDED = torch.ops.aten.as_strided.default


class Memory:
    """The memory of all simulated devices.

    Parameters
    ----------
    machine : Machine
    limit : int, optional
        Bytes that each device has.
    """

    def __init__(self, machine: Machine, limit: int | None) -> None:
        self._machine = machine
        self._allocators = [Allocator(device, limit) for device in machine.devices]
        # From any thread, and in the middle of anything: until it is looked at.
        self._released: deque[tuple[Block, str]] = deque()

    def allocator_of(self, device: torch.device | str) -> Allocator:
        """Return what gives the memory of a device."""
        return self._allocators[self._machine.index_of(device)]

    def empty(
        self, device: torch.device, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Return a new tensor on ``device``, for the current stream; its values are poison."""
        index = self._machine.index_of(device)
        last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        nbytes = (last + 1) * dtype.itemsize if all(size) else 0
        if nbytes == 0:
            nothing = torch.empty(0, dtype=torch.uint8)
            return _laid_out(tensor_over(nothing, dtype, index, _ignore), size, stride)
        stream = self._machine.current_stream(device)
        block, is_reused = self._allocators[index].take(stream, nbytes)
        self._machine.checker.begin(stream.actor, Action("allocation", calling_line()))
        block.renew()
        if is_reused:
            poison = partial(block.memory.fill_, POISON)
            self._machine.scheduler.give(stream, Task(run=poison))
        release = partial(self._release, block)
        return _laid_out(tensor_over(block.memory, dtype, index, release), size, stride)

    def block_of(self, tensor: Tensor) -> Block:
        """Return the memory of a tensor with elements."""
        return self.allocator_of(tensor.device).block_at(tensor.untyped_storage().data_ptr())

    def twin(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the host with the memory of one on a simulated device."""
        if tensor.numel() == 0:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        block = self.block_of(tensor)
        # Cut first: an offset in elements could not say where a part of a storage starts.
        storage = block.memory.untyped_storage()[tensor.data_ptr() - block.address :]
        plain = torch.empty(0, dtype=tensor.dtype)
        plain.set_(storage, 0, tensor.size(), tensor.stride())
        return conjugated_like(plain, tensor)

    def record_use(self, tensor: Tensor, stream: SimStream) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with what it was given by then."""
        if tensor.untyped_storage().nbytes():
            self.block_of(tensor).users[stream] = None

    def free_released(self) -> None:
        """Let memory be used again whose tensors are gone."""
        while self._released:
            self._free(*self._released.popleft())

    def _release(self, block: Block) -> None:
        self._released.append((block, calling_line()))

    def _free(self, block: Block, line: str) -> None:
        stream = block.stream
        self._machine.checker.begin(stream.actor, Action("free", line))
        markers = []
        for user in block.users:
            marker = Marker(user.actor.clock)
            markers.append(marker)
            self._machine.scheduler.give(user, Task(reaches=marker))
        clock = known_after(block, markers)
        self._machine.checker.free(stream.actor, block.shadow, clock, str(stream.device))
        self.allocator_of(stream.device).give_back(block, markers)


def _laid_out(tensor: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    laid_out: Tensor = without_memory(_AS_STRIDED, (tensor, size, stride), {})
    return laid_out


def _ignore() -> None:
    """Do nothing: no memory is released with an empty tensor."""

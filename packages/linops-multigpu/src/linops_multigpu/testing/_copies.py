"""Copies from one device to another and between a device and the host.

They follow the rules of ``aten/src/ATen/native/cuda/Copy.cu``. A copy between devices runs on the
current stream of the source, which waits for that of the destination before, and the other way
round after it. A copy with the host runs on the current stream of the device, and the host waits
for it: unless the caller said ``non_blocking``, and the memory of the host is pinned. From memory
that is not pinned the host takes the values along at once, to it the host waits in any case.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ._queue import SimStream
from ._registration import DEVICE_TYPE
from ._world import World


def copy(world: World, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    """Copy values to a tensor elsewhere, or on the same simulated device."""
    source = source.expand(destination.shape)
    if destination.numel() == 0:
        return
    if not _is_simulated(source):
        _from_host(world, source, destination, non_blocking)
    elif not _is_simulated(destination):
        _to_host(world, source, destination, non_blocking)
    elif source.device == destination.device:
        _launch(world, world.current_stream(source.device), "copy", source, destination, None)
    else:
        _between_devices(world, source, destination)


def _between_devices(world: World, source: Tensor, destination: Tensor) -> None:
    reaches = world.can_reach(source.device, destination.device)
    if not (reaches or _is_one_run(source, destination)):
        # Only bytes can go by way of the host: the rest is done at both ends.
        packed = source.to(destination.dtype).contiguous()
        landed = torch.empty_like(destination, memory_format=torch.contiguous_format)
        _between_devices(world, packed.resolve_conj().resolve_neg(), landed)
        destination.copy_(landed)
        return
    there = world.current_stream(source.device)
    here = world.current_stream(destination.device)
    there.wait_stream(here)
    link = f"link {source.device} -> {destination.device}"
    name = f"copy {source.device} -> {destination.device}"
    _launch(world, there, name, source, destination, link)
    here.wait_stream(there)
    _note(world, source, destination)


def _from_host(world: World, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = world.current_stream(destination.device)
    link = f"link cpu -> {destination.device}"
    name = f"copy cpu -> {destination.device}"
    if non_blocking and _is_one_run(source, destination) and world.host_memory.is_pinned(source):
        _launch(world, stream, name, source, destination, link)
    else:
        world.host_access([source], [], name)
        taken = source.detach().clone()
        target = world.memory.twin(destination)
        run = partial(_copy_now, target, taken)
        world.launch(stream, name, run, writes=[destination], link=link)
    _note(world, source, destination)
    if not non_blocking:
        stream.synchronize()


def _to_host(world: World, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = world.current_stream(source.device)
    link = f"link {source.device} -> cpu"
    name = f"copy {source.device} -> cpu"
    _launch(world, stream, name, source, destination, link)
    _note(world, source, destination)
    is_behind = _is_one_run(source, destination) and world.host_memory.is_pinned(destination)
    if not (non_blocking and is_behind):
        stream.synchronize()


def _launch(
    world: World,
    stream: SimStream,
    name: str,
    source: Tensor,
    destination: Tensor,
    link: str | None,
) -> None:
    corrupt = world.is_corrupt(source.device, destination.device)
    run = partial(_copy_now, _on_host(world, destination), _on_host(world, source), corrupt)
    world.launch(stream, name, run, reads=[source], writes=[destination], link=link)


def _copy_now(destination: Tensor, source: Tensor, corrupt: bool = False) -> None:
    destination.copy_(source)
    if corrupt:
        first = destination[(slice(0, 1),) * destination.dim()]
        first.copy_(~first if first.dtype == torch.bool else first + 1)


def _on_host(world: World, tensor: Tensor) -> Tensor:
    return world.memory.twin(tensor) if _is_simulated(tensor) else tensor.data


def _note(world: World, source: Tensor, destination: Tensor) -> None:
    nbytes = destination.numel() * destination.element_size()
    world.moved.append((str(source.device), str(destination.device), nbytes))


def _is_one_run(source: Tensor, destination: Tensor) -> bool:
    """Whether the copy is one of bytes from one address to another."""
    return (
        source.dtype == destination.dtype
        and source.is_conj() == destination.is_conj()
        and source.is_neg() == destination.is_neg()
        and source.stride() == destination.stride()
        and _is_dense(source)
    )


def _is_dense(tensor: Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((length - 1) * stride for length, stride in pairs) + 1 == tensor.numel()


def _is_simulated(tensor: Tensor) -> bool:
    return tensor.device.type == DEVICE_TYPE

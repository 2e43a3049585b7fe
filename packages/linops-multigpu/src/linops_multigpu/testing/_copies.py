"""Copies from one device to another and between a device and the host.

They follow the rules of ``aten/src/ATen/native/cuda/Copy.cu``. A copy between devices runs on the
current stream of the source, which waits for that of the destination before, and the other way
round after it. A copy with the host runs on the current stream of the device, and the host waits
for it: unless the caller said ``non_blocking``, and the memory of the host is pinned. From memory
that is not pinned the host takes the values along at once, to it the host waits in any case.

Where a copy is not one run of bytes, a device packs before what goes to pinned memory without gaps;
whether pinned memory that it unpacks is read at once or later counts as not known, so as both.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ._machine import Machine
from ._queue import SimStream
from ._registration import DEVICE_TYPE


def copy(machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    """Copy values to a tensor elsewhere, or on the same simulated device."""
    source = source.expand(destination.shape)
    if destination.numel() == 0:
        return
    if not _is_simulated(source):
        _from_host(machine, source, destination, non_blocking)
    elif not _is_simulated(destination):
        _to_host(machine, source, destination, non_blocking)
    elif source.device == destination.device:
        _launch(machine, machine.current_stream(source.device), "copy", source, destination, None)
    else:
        _between_devices(machine, source, destination)


def _between_devices(machine: Machine, source: Tensor, destination: Tensor) -> None:
    reaches = (source.device, destination.device) not in machine.cut_links
    if not (reaches or _is_one_run(source, destination)):
        # Only bytes can go by way of the host: the rest is done at both ends.
        packed = source.to(destination.dtype).contiguous()
        landed = torch.empty_like(destination, memory_format=torch.contiguous_format)
        _between_devices(machine, packed.resolve_conj().resolve_neg(), landed)
        destination.copy_(landed)
        return
    there = machine.current_stream(source.device)
    here = machine.current_stream(destination.device)
    there.wait_stream(here)
    link = f"link {source.device} -> {destination.device}"
    name = f"copy {source.device} -> {destination.device}"
    _launch(machine, there, name, source, destination, link)
    here.wait_stream(there)
    _note(machine, source, destination)


def _from_host(machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = machine.current_stream(destination.device)
    link = f"link cpu -> {destination.device}"
    name = f"copy cpu -> {destination.device}"
    is_behind = non_blocking and machine.host_memory.is_pinned(source)
    if is_behind and _is_one_run(source, destination):
        _launch(machine, stream, name, source, destination, link)
    else:
        machine.host_access([source], [], name)
        taken = source.detach().clone()
        target = machine.memory.twin(destination)
        run = partial(_copy_now, target, taken)
        reads = [source] if is_behind else []
        machine.launch(stream, name, run, reads=reads, writes=[destination], link=link)
    _note(machine, source, destination)
    if not non_blocking:
        stream.synchronize()


def _to_host(machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = machine.current_stream(source.device)
    link = f"link {source.device} -> cpu"
    name = f"copy {source.device} -> cpu"
    _launch(machine, stream, name, source, destination, link)
    _note(machine, source, destination)
    is_packed = destination.is_contiguous() or _is_one_run(source, destination)
    if not (non_blocking and is_packed and machine.host_memory.is_pinned(destination)):
        stream.synchronize()


def _launch(
    machine: Machine,
    stream: SimStream,
    name: str,
    source: Tensor,
    destination: Tensor,
    link: str | None,
) -> None:
    corrupt = (source.device, destination.device) in machine.corrupt_links
    run = partial(_copy_now, _on_host(machine, destination), _on_host(machine, source), corrupt)
    machine.launch(stream, name, run, reads=[source], writes=[destination], link=link)


def _copy_now(destination: Tensor, source: Tensor, corrupt: bool = False) -> None:
    destination.copy_(source)
    if corrupt:
        first = destination[(slice(0, 1),) * destination.dim()]
        first.copy_(~first if first.dtype == torch.bool else first + 1)


def _on_host(machine: Machine, tensor: Tensor) -> Tensor:
    return machine.memory.twin(tensor) if _is_simulated(tensor) else tensor.data


def _note(machine: Machine, source: Tensor, destination: Tensor) -> None:
    nbytes = destination.numel() * destination.element_size()
    machine.moved.append((str(source.device), str(destination.device), nbytes))


def _is_one_run(source: Tensor, destination: Tensor) -> bool:
    """Whether the copy is one of bytes from one address to another."""
    return (
        source.dtype == destination.dtype
        and source.is_conj() == destination.is_conj()
        and source.is_neg() == destination.is_neg()
        and _run(source) == _run(destination) is not None
    )


def _run(tensor: Tensor) -> list[tuple[int, int]] | None:
    """Return how the axes lie in memory, or None if there are gaps between the elements."""
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    axes_with_steps = [(length, stride) for length, stride in axes if length > 1]
    extent = 1 + sum((length - 1) * stride for length, stride in axes_with_steps)
    return axes_with_steps if extent == tensor.numel() else None


def _is_simulated(tensor: Tensor) -> bool:
    return tensor.device.type == DEVICE_TYPE

"""Copies from one device to another and between a device and the host.

The rules are those of ``aten/src/ATen/native/cuda/Copy.cu``. A copy between devices runs on the
current stream of the source. Before it, this stream waits for that of the destination; after it,
the destination waits for the source. A copy from or to the host runs on the current stream of the
device. The host waits for it, unless the caller passed ``non_blocking`` and the host memory is
pinned. Memory that is not pinned is read at once. If pinned memory must be unpacked, torch may read
it at once or later; both are checked.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .._device import DEVICE_TYPE
from .._machine._machine import Machine
from .._machine._streams import SimStream


def copy(
    machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool = False
) -> Tensor:
    """Copy the values of a tensor to one on the same or another device, and return that."""
    source = source.expand(destination.shape)
    if destination.numel() == 0:
        return destination
    if source.device.type != DEVICE_TYPE:
        _from_host(machine, source, destination, non_blocking)
    elif destination.device.type != DEVICE_TYPE:
        _to_host(machine, source, destination, non_blocking)
    elif source.device == destination.device:
        run = partial(machine.on_host(destination).copy_, machine.on_host(source))
        stream = machine.current_stream(source.device)
        machine.launch(stream, "copy", run, reads=[source], writes=[destination])
    else:
        _between_devices(machine, source, destination)
    return destination


def _between_devices(machine: Machine, source: Tensor, destination: Tensor) -> None:
    reaches = (source.device, destination.device) not in machine.cut_links
    if not (reaches or _is_one_run(source, destination)):
        # Only contiguous bytes can go through the host: pack and unpack at the ends.
        packed = source.to(destination.dtype).contiguous()
        landed = torch.empty_like(destination, memory_format=torch.contiguous_format)
        _between_devices(machine, packed.resolve_conj().resolve_neg(), landed)
        destination.copy_(landed)
        return
    sending = machine.current_stream(source.device)
    receiving = machine.current_stream(destination.device)
    sending.wait_stream(receiving)
    _send(machine, sending, source, destination, reads=[source])
    receiving.wait_stream(sending)


def _from_host(machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = machine.current_stream(destination.device)
    is_behind = non_blocking and machine.host_memory.is_pinned(source)
    values = source
    if not (is_behind and _is_one_run(source, destination)):
        machine.host_access([source], [], f"copy cpu -> {destination.device}")
        values = source.detach().clone()
    _send(machine, stream, values, destination, reads=[source] if is_behind else [])
    if not non_blocking:
        stream.synchronize()


def _to_host(machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool) -> None:
    stream = machine.current_stream(source.device)
    _send(machine, stream, source, destination, reads=[source])
    is_packed = destination.is_contiguous() or _is_one_run(source, destination)
    if not (non_blocking and is_packed and machine.host_memory.is_pinned(destination)):
        stream.synchronize()


def _send(
    machine: Machine, stream: SimStream, values: Tensor, destination: Tensor, reads: list[Tensor]
) -> None:
    way = f"{values.device} -> {destination.device}"
    is_corrupt = (values.device, destination.device) in machine.corrupt_links
    run = partial(_arrive, machine.on_host(destination), machine.on_host(values), is_corrupt)
    machine.launch(
        stream, f"copy {way}", run, reads=reads, writes=[destination], link=f"link {way}"
    )
    nbytes = destination.numel() * destination.element_size()
    machine.moved.append((str(values.device), str(destination.device), nbytes))


def _arrive(destination: Tensor, values: Tensor, is_corrupt: bool) -> None:
    destination.copy_(values)
    if is_corrupt:
        first = destination[(slice(0, 1),) * destination.dim()]
        first.copy_(~first if first.dtype == torch.bool else first + 1)


def _is_one_run(source: Tensor, destination: Tensor) -> bool:
    """Whether the copy moves one run of bytes."""
    return (
        source.dtype == destination.dtype
        and source.is_conj() == destination.is_conj()
        and source.is_neg() == destination.is_neg()
        and _run(source) == _run(destination) is not None
    )


def _run(tensor: Tensor) -> list[tuple[int, int]] | None:
    """Return the axes as they lie in memory, or None if there are gaps between the elements."""
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    axes_with_steps = [(length, stride) for length, stride in axes if length > 1]
    extent = 1 + sum((length - 1) * stride for length, stride in axes_with_steps)
    return axes_with_steps if extent == tensor.numel() else None

"""What becomes of an operator that meets a simulated device: most are computed later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .._device import DEVICE_TYPE, without_memory
from .._machine._machine import Machine
from ._compute import compute, resize
from ._copies import copy

aten = torch.ops.aten
_INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)


def run(machine: Machine, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what ``op`` does on a real device."""
    with machine.entered():
        special = _SPECIAL.get(op)
        if special is not None:
            return special(machine, *args, **kwargs)
        if op.is_view or op.overloadpacket is aten.set_:
            return without_memory(op, args, kwargs)
        if op.overloadpacket in _INDEXED and len(args) > 1:
            # Positions may come from the host, on every kind of device.
            device = args[0].device
            indices = [None if index is None else index.to(device) for index in args[1]]
            args = (args[0], indices, *args[2:])
        return compute(machine, op, args, kwargs)


def _empty(
    op: OpOverload, machine: Machine, *args: Any, device: torch.device, **options: Any
) -> Tensor:
    like = op(*args, device=torch.device("meta"), **options)
    return machine.empty(device, like.size(), like.stride(), like.dtype)


def _resize(machine: Machine, tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    like = torch.empty(size, device="meta", memory_format=memory_format)
    resize(machine, tensor, like.size(), like.stride())
    return tensor


def _to_copy(
    machine: Machine, tensor: Tensor, *, non_blocking: bool = False, **options: Any
) -> Tensor:
    made: Tensor = aten.empty_like.default(tensor, **options)
    if made.device.type == "meta":
        return made
    if made.device.type != DEVICE_TYPE and non_blocking:
        # As torch does for accelerators: the caller is to wait for the copy.
        machine.host_memory.pin(made)
    return copy(machine, tensor, made, non_blocking)


def _as(op: OpOverload, machine: Machine, *args: Any) -> Any:
    return compute(machine, op, args, {})


def _convolution_backward(machine: Machine, *args: Any) -> Any:
    op = aten.convolution_backward.default
    return compute(machine, op, (*args[:3], None, *args[3:]), {})  # None for the sizes of a bias


_SPECIAL: dict[OpOverload, Callable[..., Any]] = {
    aten.empty.memory_format: partial(_empty, aten.empty.memory_format),
    aten.empty_strided.default: partial(_empty, aten.empty_strided.default),
    aten._copy_from.default: copy,
    aten._to_copy.default: _to_copy,
    aten._local_scalar_dense.default: partial(_as, aten._local_scalar_dense.default),
    aten.resize_.default: _resize,
    # Of these torch has only stubs for devices that it does not know.
    aten.convolution_overrideable.default: partial(_as, aten.convolution.default),
    aten.convolution_backward_overrideable.default: _convolution_backward,
}
OWN = tuple(_SPECIAL)
"""Operators that torch would do itself, or do without a tensor of the device type."""

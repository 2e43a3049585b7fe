"""What becomes of an operator that meets a simulated device: most are computed later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .._device._registration import DEVICE_TYPE, without_memory
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
            args = (args[0], [_brought(index, args[0].device) for index in args[1]], *args[2:])
        return compute(machine, op, args, kwargs)


def _brought(index: Tensor | None, device: torch.device) -> Tensor | None:
    return None if index is None else index.to(device)


def _empty(
    machine: Machine,
    size: Any,
    stride: Any = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device,
    memory_format: torch.memory_format | None = None,
    **options: object,
) -> Tensor:
    if stride is None:
        stride = torch.empty(size, device="meta", memory_format=memory_format).stride()
    return machine.empty(device, size, stride, dtype or torch.get_default_dtype())


def _resize(
    machine: Machine,
    tensor: Tensor,
    size: Any,
    *,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    like = torch.empty(size, device="meta", memory_format=memory_format)
    resize(machine, tensor, like.size(), like.stride())
    return tensor


def _to_copy(
    machine: Machine,
    tensor: Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
    **options: object,
) -> Tensor:
    made = torch.empty_like(
        tensor, dtype=dtype, device=device, memory_format=memory_format or torch.preserve_format
    )
    if made.device.type == "meta":
        return made
    if made.device.type != DEVICE_TYPE and non_blocking:
        # As torch does for accelerators: the caller is to wait for the copy.
        machine.host_memory.pin(made)
    return copy(machine, tensor, made, non_blocking)


def _as(op: OpOverload, machine: Machine, *args: Any) -> Any:
    return compute(machine, op, args, {})


def _convolution_backward(
    machine: Machine, gradient: Tensor, x: Tensor, weight: Tensor, *args: Any
) -> Any:
    every = (gradient, x, weight, None, *args)
    return compute(machine, aten.convolution_backward.default, every, {})


_SPECIAL: dict[OpOverload, Callable[..., Any]] = {
    aten.empty.memory_format: _empty,
    aten.empty_strided.default: _empty,
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

"""The operators that are about devices and memory: they are done in ways of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ._compute import compute_later, compute_now, resize
from ._copies import copy
from ._machine import Machine
from ._registration import DEVICE_TYPE

aten = torch.ops.aten


def _empty(
    machine: Machine,
    size: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device,
    memory_format: torch.memory_format | None = None,
    **options: object,
) -> Tensor:
    like = torch.empty(size, device="meta", memory_format=memory_format)
    return machine.memory.empty(device, size, like.stride(), dtype or torch.get_default_dtype())


def _empty_strided(
    machine: Machine,
    size: Any,
    stride: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device,
    **options: object,
) -> Tensor:
    return machine.memory.empty(device, size, stride, dtype or torch.get_default_dtype())


def _copy_from(
    machine: Machine, source: Tensor, destination: Tensor, non_blocking: bool = False
) -> Tensor:
    copy(machine, source, destination, non_blocking)
    return destination


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


def _item(machine: Machine, tensor: Tensor) -> Any:
    op = aten._local_scalar_dense.default
    compute = partial(op, machine.memory.twin(tensor))
    return compute_now(machine, op, tensor.device, compute, [tensor], [])


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
    target = device or tensor.device
    like = torch.empty_like(
        tensor, dtype=dtype, device="meta", memory_format=memory_format or torch.preserve_format
    )
    if target.type == DEVICE_TYPE:
        made = machine.memory.empty(target, like.size(), like.stride(), like.dtype)
    elif target.type == "meta":
        return like
    else:
        made = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=target)
        if non_blocking:
            # As torch does for accelerators: the caller is to wait for the copy.
            machine.host_memory.pin(made)
    copy(machine, tensor, made, non_blocking)
    return made


def _convolution(machine: Machine, *args: Any) -> Any:
    # Of this one torch has only a stub for devices that it does not know.
    return compute_later(machine, aten.convolution.default, args, {})


def _convolution_backward(
    machine: Machine, gradient: Tensor, x: Tensor, weight: Tensor, *args: Any
) -> Any:
    every = (gradient, x, weight, None, *args)
    return compute_later(machine, aten.convolution_backward.default, every, {})


SPECIAL: dict[OpOverload, Callable[..., Any]] = {
    aten.empty.memory_format: _empty,
    aten.empty_strided.default: _empty_strided,
    aten._copy_from.default: _copy_from,
    aten._to_copy.default: _to_copy,
    aten._local_scalar_dense.default: _item,
    aten.resize_.default: _resize,
    aten.convolution_overrideable.default: _convolution,
    aten.convolution_backward_overrideable.default: _convolution_backward,
}

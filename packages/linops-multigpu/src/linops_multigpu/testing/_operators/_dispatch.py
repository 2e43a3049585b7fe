"""Dispatch of torch operators: on simulated devices, and on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.overrides import TorchFunctionMode

from linops_split.siblings import tensors_in

from .._device import (
    DEVICE_TYPE,
    OpOverload,
    TorchDispatchMode,
    counts_its_writes,
    outside_of_function_modes,
    without_memory,
)
from .._machine._machine import Machine
from ._compute import compute, resize, written_by
from ._copies import copy

aten = torch.ops.aten
_INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)


def run(machine: Machine, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run ``op`` as on a real device."""
    with machine.entered(), outside_of_function_modes():
        special = _SPECIAL.get(op)
        if special is not None:
            return special(machine, *args, **kwargs)
        if op.is_view or op.overloadpacket is aten.set_:
            return without_memory(op, args, kwargs)
        if op.overloadpacket in _INDEXED and len(args) > 1:
            # As on every device, indices may be on the host.
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
        # As torch does for accelerators: the caller has to wait for the copy.
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
    # For unknown devices torch has only stubs of these.
    aten.convolution_overrideable.default: partial(_as, aten.convolution.default),
    aten.convolution_backward_overrideable.default: _convolution_backward,
}
OWN = tuple(_SPECIAL)
"""Operators that torch would otherwise run itself, or without a tensor of the device type."""


class HostAccess(TorchDispatchMode):
    """Checks the reads and writes of operators on the host, in the thread that entered it.

    It also counts writes in the versions of tensors, if a mode keeps torch from counting them.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._machine = machine

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        written = written_by(func, args, options)
        if not func.is_view:
            with outside_of_function_modes():
                self._check(func, [*tensors_in((args, options))], written, options.get("device"))
        result = func(*args, **options)
        if written and not counts_its_writes(func):
            increment_version([tensor for tensor in written if not tensor.is_inference()])
        return result

    def _check(
        self,
        func: OpOverload,
        tensors: list[Tensor],
        written: list[Tensor],
        device: torch.device | None,
    ) -> None:
        # Operators on devices check their own accesses to the host.
        devices = [tensor.device for tensor in tensors] + ([device] if device else [])
        if all(device.type != DEVICE_TYPE for device in devices):
            with self._machine.entered():
                self._machine.host_access(tensors, written, str(func))


# Functions that read the memory of a tensor without operators, or let others read it.
_READERS = {
    *(Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__),
    *(Tensor.__repr__, Tensor.__format__, torch.tensor, torch.as_tensor, torch.asarray),
}


class HostReads(TorchFunctionMode):
    """Checks reads of host memory without operators, in the thread that entered it.

    An object that shares memory, such as a NumPy array, counts as read when it is made.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _READERS:
            with self._machine.entered():
                self._machine.host_access([*tensors_in((args, kwargs))], (), func.__name__)
        return func(*args, **(kwargs or {}))

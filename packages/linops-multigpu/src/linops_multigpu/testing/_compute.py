"""Any operator on simulated devices: checked now, and computed when a stream gets to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from ._machine import Machine
from ._registration import DEVICE_TYPE, conjugated_like, without_memory
from ._schema import (
    returns_tensors,
    takes_generator,
    tensors_in,
    waits_for_values,
    written_by,
)

Arguments = tuple[Any, ...]
Options = dict[str, Any]


def compute_later(machine: Machine, op: OpOverload, args: Arguments, kwargs: Options) -> Any:
    """Return what ``op`` returns on a real device: tensors whose values will be there.

    Parameters
    ----------
    machine : Machine
    op : OpOverload
    args, kwargs : tuple and dict
        Tensors on one simulated device, and numbers.

    Raises
    ------
    RuntimeError
        If there are tensors on several devices, or it cannot be said which random numbers ``op``
        draws.
    """
    written = written_by(op, args, kwargs)
    device = _common_device(op, args, kwargs, written)
    call = _Call(op, device, args, _with_random_numbers(op, kwargs), written)
    if not returns_tensors(op):
        return compute_now(machine, op, device, call.on_host(machine), call.read, written)
    try:
        shapes, resized = _shapes(op, args, kwargs)
    except NotImplementedError:  # torch knows the shapes only from the values
        found = compute_now(machine, op, device, call.on_host(machine), call.read, written)
        if not op._schema.returns:
            return None
        if op._schema.is_mutable:
            return written[0] if len(written) == 1 else tuple(written)
        return _with_values_of(machine, device, found)
    for tensor, shape in resized:
        resize(machine, tensor, shape.size(), shape.stride())
    made: list[Tensor] = []

    def stand_in(result: Tensor) -> Tensor:
        if result.device.type == "meta":
            result = machine.memory.empty(device, result.size(), result.stride(), result.dtype)
            made.append(result)
        return result

    results = tree_map_only(Tensor, stand_in, shapes)
    targets = [machine.memory.twin(tensor) for tensor in made]
    fill = partial(_fill, call.on_host(machine), targets, op)
    stream = machine.current_stream(device)
    machine.launch(stream, str(op), fill, reads=call.read, writes=[*written, *made])
    return results


class _Call(NamedTuple):
    """An operator and what it was called with."""

    op: OpOverload
    device: torch.device
    args: Arguments
    kwargs: Options
    written: list[Tensor]

    @property
    def read(self) -> list[Tensor]:
        """The tensors on the device that are not written to."""
        return [
            tensor
            for tensor in tensors_in((self.args, self.kwargs))
            if tensor.device == self.device and not any(tensor is out for out in self.written)
        ]

    def on_host(self, machine: Machine) -> Callable[[], Any]:
        """Return what does it in the memory of the host."""
        twins = partial(tree_map_only, Tensor, partial(_twin_or_number, machine))
        options = _elsewhere(self.kwargs, "cpu")
        return partial(_callable(self.op, self.args), *twins(self.args), **twins(options))


def _callable(op: OpOverload, args: Arguments) -> Callable[..., Any]:
    """Return what can be called: torch hands over numbers where this overload takes tensors."""
    taken = zip(op._schema.arguments, args, strict=False)
    is_given_a_number = any(
        isinstance(value, (int, float, complex)) and str(argument.type) == "Tensor"
        for argument, value in taken
    )
    return op.overloadpacket if is_given_a_number else op


def _with_random_numbers(op: OpOverload, kwargs: Options) -> Options:
    """Return the options with what random numbers come from.

    That is decided now: they must not depend on the order in which streams get on.
    """
    if torch.Tag.nondeterministic_seeded not in op.tags or kwargs.get("generator") is not None:
        return kwargs
    if not takes_generator(op):
        raise RuntimeError(f"simulated: random numbers must come from a generator, got {op}")
    seed = int(torch.randint(2**62, ()))
    return {**kwargs, "generator": torch.Generator().manual_seed(seed)}


def _elsewhere(kwargs: Options, device: str) -> Options:
    return {**kwargs, "device": torch.device(device)} if "device" in kwargs else kwargs


def _fill(compute: Callable[[], Any], targets: list[Tensor], op: OpOverload) -> None:
    """Compute, and put what is new into the memory that was given for it."""
    results = compute()
    if not targets:
        return
    for target, result in zip(targets, tensors_in(results), strict=True):
        if target.shape != result.shape:
            raise RuntimeError(f"simulated: {op} must return {target.shape}, got {result.shape}")
        target.copy_(result)


def compute_now(
    machine: Machine,
    op: OpOverload,
    device: torch.device,
    compute: Callable[[], Any],
    read: list[Tensor],
    written: list[Tensor],
) -> Any:
    """Let the stream compute at once; the host learns the values if it would on a real device."""
    stream = machine.current_stream(device)
    found: list[Any] = []
    machine.launch(stream, str(op), lambda: found.append(compute()), reads=read, writes=written)
    if waits_for_values(op):
        stream.synchronize()
    else:
        machine.scheduler.finish(stream)
    return found[0]


def _with_values_of(machine: Machine, device: torch.device, values: Any) -> Any:
    """Return tensors on ``device`` with the values that were found on the host."""

    def sent(value: Tensor) -> Tensor:
        tensor = machine.memory.empty(device, value.size(), value.stride(), value.dtype)
        run = partial(machine.memory.twin(tensor).copy_, value)
        machine.launch(machine.current_stream(device), "result", run, writes=[tensor])
        return tensor

    return tree_map_only(Tensor, sent, values)


def _shapes(
    op: OpOverload, args: Arguments, kwargs: Options
) -> tuple[Any, list[tuple[Tensor, Tensor]]]:
    """Return what ``op`` returns, new tensors as shapes only, and which arguments it resizes."""
    shape_of: dict[int, tuple[Tensor, Tensor]] = {}

    def shape(tensor: Tensor) -> Tensor:
        if tensor.device.type != DEVICE_TYPE:
            return tensor
        if id(tensor) not in shape_of:
            empty = torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
            )
            shape_of[id(tensor)] = tensor, conjugated_like(empty, tensor)
        return shape_of[id(tensor)][1]

    options = _elsewhere(kwargs, "meta")
    call = _callable(op, args)
    results = call(*tree_map_only(Tensor, shape, args), **tree_map_only(Tensor, shape, options))
    given = {id(meta): tensor for tensor, meta in shape_of.values()}
    resized = [(tensor, meta) for tensor, meta in shape_of.values() if tensor.shape != meta.shape]
    return tree_map_only(Tensor, lambda meta: given.get(id(meta), meta), results), resized


def _common_device(
    op: OpOverload, args: Arguments, kwargs: Options, written: list[Tensor]
) -> torch.device:
    """Return the device that all arguments are on.

    Raises
    ------
    RuntimeError
        If they are on several. Numbers on the host that are only read are on all.
    """
    found = dict.fromkeys(
        tensor.device
        for tensor in tensors_in((args, kwargs))
        if tensor.device.type != "cpu" or tensor.dim() or any(tensor is out for out in written)
    )
    if kwargs.get("device") is not None:
        found[torch.device(kwargs["device"])] = None
    if len(found) != 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(map(str, found))}, in {op}"
        )
    return next(iter(found))


def _twin_or_number(machine: Machine, tensor: Tensor) -> Tensor:
    if tensor.device.type == DEVICE_TYPE:
        return machine.memory.twin(tensor)
    machine.host_access([tensor], [], "number")
    return tensor.detach().clone()


def resize(machine: Machine, tensor: Tensor, size: Sequence[int], stride: Sequence[int]) -> None:
    """Give a tensor another size, and if it has no memory yet, memory.

    Raises
    ------
    RuntimeError
        If it has memory, but not enough: its other views could not follow.
    """
    nbytes = math.prod(size) * tensor.element_size()
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    if offset * tensor.element_size() + nbytes > storage.nbytes():
        if storage.nbytes():
            raise RuntimeError(
                f"simulated: a tensor to be resized must be empty or have the memory for it, got "
                f"{tuple(tensor.shape)} to become {tuple(size)}"
            )
        storage = machine.memory.empty(tensor.device, size, stride, tensor.dtype).untyped_storage()
        offset = 0
    op = torch.ops.aten.set_.source_Storage_storage_offset
    without_memory(op, (tensor, storage, offset, size, stride), {})

"""Operators on simulated devices: checked at once, and computed later by a stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from linops_split.siblings import tensors_in

from .._device import DEVICE_TYPE, OpOverload, conjugated_like, without_memory
from .._machine._machine import Machine

Arguments = tuple[Any, ...]
Options = dict[str, Any]


def written_by(op: OpOverload, args: Arguments, kwargs: Options) -> list[Tensor]:
    """Return the arguments that ``op`` writes to."""
    tensors: list[Tensor] = []
    for position, name in _outputs(op):
        tensors += tensors_in([args[position] if position < len(args) else kwargs.get(name)])
    return tensors


@cache
def _outputs(op: OpOverload) -> list[tuple[int, str]]:
    """Return the position and name of each argument that ``op`` writes to."""
    return [
        (position, argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def mapped(function: Callable[[Tensor], Any], values: Any) -> Any:
    """Return nested lists, tuples and dictionaries with a function applied to each tensor."""
    if isinstance(values, Tensor):
        return function(values)
    if isinstance(values, dict):
        return {name: mapped(function, value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)([mapped(function, value) for value in values])
    return values


def compute(machine: Machine, op: OpOverload, args: Arguments, kwargs: Options) -> Any:
    """Return the results of ``op``: as on a real device, tensors that get their values later."""
    written = written_by(op, args, kwargs)
    device = _common_device(op, args, kwargs, written)
    stream = machine.current_stream(device)
    kwargs = _with_random_numbers(op, kwargs)
    read = [
        tensor
        for tensor in tensors_in((args, kwargs))
        if tensor.device == device and not any(tensor is out for out in written)
    ]
    kinds = [str(returned.type) for returned in op._schema.returns]
    returns = not kinds or any("Tensor" in kind for kind in kinds)
    shapes = _shapes(op, args, kwargs) if returns else None
    if shapes is None:  # the shapes depend on values
        outcome: list[Any] = []
        run = _on_host(machine, op, args, kwargs)
        machine.launch(stream, str(op), lambda: outcome.append(run()), reads=read, writes=written)
        of_values = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
        if not returns or of_values & set(op.tags):
            stream.synchronize()  # as on all devices
        else:
            machine.scheduler.finish(stream)
        if op._schema.is_mutable and op._schema.returns:
            return written[0] if len(written) == 1 else tuple(written)
        return mapped(partial(_sent, machine, device), outcome[0])

    results, resized = shapes
    for tensor, shape in resized:
        resize(machine, tensor, shape.size(), shape.stride())
    made: list[Tensor] = []

    def stand_in(result: Tensor) -> Tensor:
        if result.device.type == "meta":
            result = machine.empty(device, result.size(), result.stride(), result.dtype)
            made.append(result)
        return result

    results = mapped(stand_in, results)
    run = _on_host(machine, op, args, kwargs)
    fill = partial(_fill, run, [machine.on_host(tensor) for tensor in made], op)
    machine.launch(stream, str(op), fill, reads=read, writes=[*written, *made])
    return results


def _on_host(
    machine: Machine, op: OpOverload, args: Arguments, kwargs: Options
) -> Callable[[], Any]:
    """Return a function that computes the operator on the host, in the memory of the devices."""

    def twin_or_number(tensor: Tensor) -> Tensor:
        if tensor.device.type == DEVICE_TYPE:
            return machine.on_host(tensor)
        machine.host_access([tensor], [], "number")
        return tensor.detach().clone()

    args, kwargs = mapped(twin_or_number, (args, _elsewhere(kwargs, "cpu")))
    return partial(_callable(op, args), *args, **kwargs)


def _sent(machine: Machine, device: torch.device, values: Tensor) -> Tensor:
    """Return a tensor on the device with values that were computed on the host."""
    tensor = machine.empty(device, values.size(), values.stride(), values.dtype)
    run = partial(machine.on_host(tensor).copy_, values)
    machine.launch(machine.current_stream(device), "result", run, writes=[tensor])
    return tensor


def _callable(op: OpOverload, args: Arguments) -> Callable[..., Any]:
    """Return the overload, or the operator if torch passes numbers for tensors."""
    taken = zip(op._schema.arguments, args, strict=False)
    is_given_a_number = any(
        isinstance(value, (int, float, complex)) and str(argument.type) == "Tensor"
        for argument, value in taken
    )
    return op.overloadpacket if is_given_a_number else op


def _with_random_numbers(op: OpOverload, kwargs: Options) -> Options:
    """Return the options with a seeded generator, so that the order of streams does not matter."""
    if torch.Tag.nondeterministic_seeded not in op.tags or kwargs.get("generator") is not None:
        return kwargs
    if not any(argument.name == "generator" for argument in op._schema.arguments):
        raise RuntimeError(f"simulated: random numbers must come from a generator, got {op}")
    seed = int(torch.randint(2**62, ()))
    return {**kwargs, "generator": torch.Generator().manual_seed(seed)}


def _elsewhere(kwargs: Options, device: str) -> Options:
    return {**kwargs, "device": torch.device(device)} if "device" in kwargs else kwargs


def _fill(run: Callable[[], Any], targets: list[Tensor], op: OpOverload) -> None:
    results = run()
    for target, result in zip(targets, tensors_in([results] if targets else []), strict=True):
        if target.shape != result.shape:
            raise RuntimeError(f"simulated: {op} must return {target.shape}, got {result.shape}")
        target.copy_(result)


def _shapes(
    op: OpOverload, args: Arguments, kwargs: Options
) -> tuple[Any, list[tuple[Tensor, Tensor]]] | None:
    """Return the shapes of the results, and resized tensors; None if shapes depend on values."""
    metas: dict[Tensor, Tensor] = {}  # by identity, as tensors hash

    def shape(tensor: Tensor) -> Tensor:
        if tensor.device.type != DEVICE_TYPE:
            return tensor
        if tensor not in metas:
            size, stride = tensor.size(), tensor.stride()
            empty = torch.empty_strided(size, stride, dtype=tensor.dtype, device="meta")
            metas[tensor] = conjugated_like(empty, tensor)
        return metas[tensor]

    called = _callable(op, args)
    args, kwargs = mapped(shape, (args, _elsewhere(kwargs, "meta")))
    try:
        results = called(*args, **kwargs)
    except NotImplementedError:
        return None
    given = {meta: tensor for tensor, meta in metas.items()}
    resized = [(tensor, meta) for tensor, meta in metas.items() if tensor.shape != meta.shape]
    return mapped(lambda meta: given.get(meta, meta), results), resized


def _common_device(
    op: OpOverload, args: Arguments, kwargs: Options, written: list[Tensor]
) -> torch.device:
    """Return the device of all arguments; scalars of the host may be used on any device."""
    devices = dict.fromkeys(
        tensor.device
        for tensor in tensors_in((args, kwargs))
        if tensor.device.type != "cpu" or tensor.dim() or any(tensor is out for out in written)
    )
    if kwargs.get("device") is not None:
        devices[torch.device(kwargs["device"])] = None
    if len(devices) != 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(map(str, devices))}, in {op}"
        )
    return next(iter(devices))


def resize(machine: Machine, tensor: Tensor, size: Sequence[int], stride: Sequence[int]) -> None:
    """Resize a tensor; allocate memory only if it has none, as views could not follow."""
    nbytes = math.prod(size) * tensor.element_size()
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    if offset * tensor.element_size() + nbytes > storage.nbytes():
        if storage.nbytes():
            raise RuntimeError(
                f"simulated: a tensor to be resized must be empty or have enough memory, got "
                f"{tuple(tensor.shape)} to become {tuple(size)}"
            )
        storage = machine.empty(tensor.device, size, stride, tensor.dtype).untyped_storage()
        offset = 0
    op = torch.ops.aten.set_.source_Storage_storage_offset
    without_memory(op, (tensor, storage, offset, size, stride), {})

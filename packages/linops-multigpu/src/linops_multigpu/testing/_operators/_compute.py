"""Any operator on simulated devices: checked now, and computed when a stream gets to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from .._device._registration import (
    DEVICE_TYPE,
    conjugated_like,
    without_memory,
)
from .._device._schema import (
    returns_tensors,
    takes_generator,
    tensors_in,
    waits_for_values,
    written_by,
)
from .._machine._machine import Machine

Arguments = tuple[Any, ...]
Options = dict[str, Any]


def compute(machine: Machine, op: OpOverload, args: Arguments, kwargs: Options) -> Any:
    """Return what ``op`` returns on a real device: tensors whose values will be there."""
    call = _Call(machine, op, args, kwargs)
    if not returns_tensors(op):
        return call.now()
    try:
        shapes, resized = _shapes(op, args, kwargs)
    except NotImplementedError:  # torch knows the shapes only from the values
        found = call.now()
        if op._schema.is_mutable and op._schema.returns:
            return call.written[0] if len(call.written) == 1 else tuple(call.written)
        return tree_map_only(Tensor, call.sent, found)
    for tensor, shape in resized:
        resize(machine, tensor, shape.size(), shape.stride())
    made: list[Tensor] = []

    def stand_in(result: Tensor) -> Tensor:
        if result.device.type == "meta":
            result = machine.empty(call.device, result.size(), result.stride(), result.dtype)
            made.append(result)
        return result

    results = tree_map_only(Tensor, stand_in, shapes)
    call.later(made)
    return results


class _Call:
    """An operator and what it is called with, on one device."""

    def __init__(self, machine: Machine, op: OpOverload, args: Arguments, kwargs: Options) -> None:
        self.written = written_by(op, args, kwargs)
        self.device = _common_device(op, args, kwargs, self.written)
        self._machine, self._op, self._args = machine, op, args
        self._kwargs = _with_random_numbers(op, kwargs)
        self._read = [
            tensor
            for tensor in tensors_in((args, kwargs))
            if tensor.device == self.device and not any(tensor is out for out in self.written)
        ]
        self._stream = machine.current_stream(self.device)

    def later(self, made: list[Tensor]) -> None:
        """Let the stream compute, and put what is new into the memory that was made for it."""
        targets = [self._machine.on_host(tensor) for tensor in made]
        self._launch(partial(_fill, self._on_host(), targets, self._op), made)

    def now(self) -> Any:
        """Compute at once; the host learns the values if it would on a real device."""
        found: list[Any] = []
        run = self._on_host()
        self._launch(lambda: found.append(run()), [])
        if waits_for_values(self._op):
            self._stream.synchronize()
        else:
            self._machine.scheduler.finish(self._stream)
        return found[0]

    def sent(self, values: Tensor) -> Tensor:
        """Return a tensor on the device with values that were found on the host."""
        tensor = self._machine.empty(self.device, values.size(), values.stride(), values.dtype)
        run = partial(self._machine.on_host(tensor).copy_, values)
        self._machine.launch(self._stream, "result", run, writes=[tensor])
        return tensor

    def _launch(self, run: Callable[[], object], made: list[Tensor]) -> None:
        writes = [*self.written, *made]
        self._machine.launch(self._stream, str(self._op), run, reads=self._read, writes=writes)

    def _on_host(self) -> Callable[[], Any]:
        twins = partial(tree_map_only, Tensor, self._twin_or_number)
        options = _elsewhere(self._kwargs, "cpu")
        return partial(_callable(self._op, self._args), *twins(self._args), **twins(options))

    def _twin_or_number(self, tensor: Tensor) -> Tensor:
        if tensor.device.type == DEVICE_TYPE:
            return self._machine.on_host(tensor)
        self._machine.host_access([tensor], [], "number")
        return tensor.detach().clone()


def _callable(op: OpOverload, args: Arguments) -> Callable[..., Any]:
    """Return what can be called: torch hands over numbers where this overload takes tensors."""
    taken = zip(op._schema.arguments, args, strict=False)
    is_given_a_number = any(
        isinstance(value, (int, float, complex)) and str(argument.type) == "Tensor"
        for argument, value in taken
    )
    return op.overloadpacket if is_given_a_number else op


def _with_random_numbers(op: OpOverload, kwargs: Options) -> Options:
    """Return the options with a generator, seeded now: the order of streams must not matter."""
    if torch.Tag.nondeterministic_seeded not in op.tags or kwargs.get("generator") is not None:
        return kwargs
    if not takes_generator(op):
        raise RuntimeError(f"simulated: random numbers must come from a generator, got {op}")
    seed = int(torch.randint(2**62, ()))
    return {**kwargs, "generator": torch.Generator().manual_seed(seed)}


def _elsewhere(kwargs: Options, device: str) -> Options:
    return {**kwargs, "device": torch.device(device)} if "device" in kwargs else kwargs


def _fill(run: Callable[[], Any], targets: list[Tensor], op: OpOverload) -> None:
    results = run()
    if not targets:
        return
    for target, result in zip(targets, tensors_in(results), strict=True):
        if target.shape != result.shape:
            raise RuntimeError(f"simulated: {op} must return {target.shape}, got {result.shape}")
        target.copy_(result)


def _shapes(
    op: OpOverload, args: Arguments, kwargs: Options
) -> tuple[Any, list[tuple[Tensor, Tensor]]]:
    """Return what ``op`` returns, new tensors as shapes only, and which arguments it resizes."""
    metas: dict[Tensor, Tensor] = {}  # by identity, as tensors hash

    def shape(tensor: Tensor) -> Tensor:
        if tensor.device.type != DEVICE_TYPE:
            return tensor
        if tensor not in metas:
            size, stride = tensor.size(), tensor.stride()
            empty = torch.empty_strided(size, stride, dtype=tensor.dtype, device="meta")
            metas[tensor] = conjugated_like(empty, tensor)
        return metas[tensor]

    options = _elsewhere(kwargs, "meta")
    call = _callable(op, args)
    results = call(*tree_map_only(Tensor, shape, args), **tree_map_only(Tensor, shape, options))
    given = {meta: tensor for tensor, meta in metas.items()}
    resized = [(tensor, meta) for tensor, meta in metas.items() if tensor.shape != meta.shape]
    return tree_map_only(Tensor, lambda meta: given.get(meta, meta), results), resized


def _common_device(
    op: OpOverload, args: Arguments, kwargs: Options, written: list[Tensor]
) -> torch.device:
    """Return the device that all arguments are on; numbers on the host, only read, are on all."""
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


def resize(machine: Machine, tensor: Tensor, size: Sequence[int], stride: Sequence[int]) -> None:
    """Give a tensor another size, and if it has no memory yet, memory.

    One that has memory, but not enough, is refused: its other views could not follow.
    """
    nbytes = math.prod(size) * tensor.element_size()
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    if offset * tensor.element_size() + nbytes > storage.nbytes():
        if storage.nbytes():
            raise RuntimeError(
                f"simulated: a tensor to be resized must be empty or have the memory for it, got "
                f"{tuple(tensor.shape)} to become {tuple(size)}"
            )
        storage = machine.empty(tensor.device, size, stride, tensor.dtype).untyped_storage()
        offset = 0
    op = torch.ops.aten.set_.source_Storage_storage_offset
    without_memory(op, (tensor, storage, offset, size, stride), {})

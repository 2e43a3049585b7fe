"""Any operator on simulated devices: checked, and left to a stream to do later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from ._copies import copy
from ._registration import DEVICE_TYPE, conjugated_like, without_memory
from ._schema import (
    returns_tensors,
    takes_generator,
    tensors_in,
    waits_for_values,
    written_by,
)
from ._world import World

aten = torch.ops.aten
Arguments = tuple[Any, ...]
Options = dict[str, Any]

_INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)


def run(world: World, op: OpOverload, args: Arguments, kwargs: Options) -> Any:
    """Do what ``op`` does on a real device: most of it later."""
    special = SPECIAL.get(op)
    if special is not None:
        return special(world, *args, **kwargs)
    if op.is_view or op.overloadpacket is aten.set_:
        return without_memory(op, args, kwargs)
    if op.overloadpacket in _INDEXED and len(args) > 1:
        # Positions may come from the host, on every kind of device.
        args = (args[0], [_brought(index, args[0].device) for index in args[1]], *args[2:])
    return _compute(world, op, args, kwargs)


def _brought(index: Tensor | None, device: torch.device) -> Tensor | None:
    return None if index is None else index.to(device)


def _compute(world: World, op: OpOverload, args: Arguments, kwargs: Options) -> Any:
    device = _common_device(op, args, kwargs)
    stream = world.current_stream(device)
    twins = partial(tree_map_only, Tensor, partial(_twin_or_scalar, world))
    real = {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else dict(kwargs)
    if takes_generator(op) and real.get("generator") is None:
        # Drawn now: the values must not depend on the order in which streams get on.
        seed = int(torch.randint(2**62, ()))
        real["generator"] = torch.Generator().manual_seed(seed)
    compute = partial(op, *twins(args), **twins(real))
    written = written_by(op, args, kwargs)
    read = [
        tensor
        for tensor in tensors_in((args, kwargs))
        if tensor.device.type == DEVICE_TYPE and not any(tensor is other for other in written)
    ]
    if not returns_tensors(op):
        return _now(world, op, device, compute, read, written)
    try:
        shapes, resized = _shapes(op, args, kwargs)
    except NotImplementedError:  # torch knows the shapes only from the values
        return _with_shapes_of(world, device, _now(world, op, device, compute, read, written))
    for tensor, shape in resized:
        _resize(world, tensor, shape.size())
    if resized:
        compute = partial(op, *twins(args), **twins(real))
    made: list[Tensor] = []

    def stand_in(result: Tensor) -> Tensor:
        if result.device.type == DEVICE_TYPE:
            return result
        tensor = world.memory.empty(device, result.size(), result.stride(), result.dtype)
        made.append(tensor)
        return conjugated_like(tensor, result)

    results = tree_map_only(Tensor, stand_in, shapes)
    targets = [world.memory.twin(tensor) for tensor in made]
    fill = partial(_fill, compute, targets, op)
    world.launch(stream, str(op), fill, reads=read, writes=[*written, *made])
    return results


def _fill(compute: Callable[[], Any], targets: list[Tensor], op: OpOverload) -> None:
    """Compute, and put what is new into the memory that was given for it."""
    results = compute()
    if not targets:
        return
    for target, result in zip(targets, tensors_in(results), strict=True):
        if target.shape != result.shape:
            raise RuntimeError(f"simulated: {op} must return {target.shape}, got {result.shape}")
        target.copy_(result)


def _now(
    world: World,
    op: OpOverload,
    device: torch.device,
    compute: Callable[[], Any],
    read: list[Tensor],
    written: list[Tensor],
) -> Any:
    """Let the stream compute at once; the host learns the values if it would on a real device."""
    stream = world.current_stream(device)
    found: list[Any] = []
    world.launch(stream, str(op), lambda: found.append(compute()), reads=read, writes=written)
    if waits_for_values(op):
        stream.synchronize()
    else:
        world.scheduler.finish(stream)
    return found[0]


def _with_shapes_of(world: World, device: torch.device, values: Any) -> Any:
    """Return tensors on ``device`` with the values that were found on the host."""

    def sent(value: Tensor) -> Tensor:
        tensor = world.memory.empty(device, value.size(), value.stride(), value.dtype)
        run = partial(world.memory.twin(tensor).copy_, value)
        world.launch(world.current_stream(device), "result", run, writes=[tensor])
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

    options = {**kwargs, "device": torch.device("meta")} if "device" in kwargs else kwargs
    results = op(*tree_map_only(Tensor, shape, args), **tree_map_only(Tensor, shape, options))
    given = {id(meta): tensor for tensor, meta in shape_of.values()}
    resized = [(tensor, meta) for tensor, meta in shape_of.values() if tensor.shape != meta.shape]
    return tree_map_only(Tensor, lambda meta: given.get(id(meta), meta), results), resized


def _common_device(op: OpOverload, args: Arguments, kwargs: Options) -> torch.device:
    """Return the device that all arguments are on.

    Raises
    ------
    RuntimeError
        If they are on several. Numbers on the host are on all.
    """
    found = dict.fromkeys(
        tensor.device
        for tensor in tensors_in((args, kwargs))
        if tensor.device.type != "cpu" or tensor.dim()
    )
    if kwargs.get("device") is not None:
        found[torch.device(kwargs["device"])] = None
    if len(found) != 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(map(str, found))}, in {op}"
        )
    return next(iter(found))


def _twin_or_scalar(world: World, tensor: Tensor) -> Tensor:
    if tensor.device.type == DEVICE_TYPE:
        return world.memory.twin(tensor)
    world.host_access([tensor], [], "number")
    return tensor.detach().clone()


def _empty(
    world: World,
    size: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device,
    memory_format: torch.memory_format | None = None,
    **options: object,
) -> Tensor:
    like = torch.empty(size, device="meta", memory_format=memory_format)
    return world.memory.empty(device, size, like.stride(), dtype or torch.get_default_dtype())


def _empty_strided(
    world: World,
    size: Any,
    stride: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device,
    **options: object,
) -> Tensor:
    return world.memory.empty(device, size, stride, dtype or torch.get_default_dtype())


def _copy_from(
    world: World, source: Tensor, destination: Tensor, non_blocking: bool = False
) -> Tensor:
    copy(world, source, destination, non_blocking)
    return destination


def _item(world: World, tensor: Tensor) -> Any:
    op = aten._local_scalar_dense.default
    compute = partial(op, world.memory.twin(tensor))
    return _now(world, op, tensor.device, compute, [tensor], [])


def _resize(world: World, tensor: Tensor, size: Any, **options: object) -> Tensor:
    """Give a tensor another size, and if it has no memory yet, memory."""
    stride = torch.empty(size, device="meta").stride()
    nbytes = torch.Size(size).numel() * tensor.element_size()
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    if offset * tensor.element_size() + nbytes > storage.nbytes():
        if storage.nbytes():
            raise RuntimeError(
                f"simulated: a tensor to be resized must be empty or have the memory for it, got "
                f"{tuple(tensor.shape)} to become {tuple(size)}"
            )
        storage = world.memory.empty(tensor.device, size, stride, tensor.dtype).untyped_storage()
        offset = 0
    op = aten.set_.source_Storage_storage_offset
    without_memory(op, (tensor, storage, offset, size, stride), {})
    return tensor


def _to_copy(
    world: World,
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
        made = world.memory.empty(target, like.size(), like.stride(), like.dtype)
    else:
        made = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=target)
        if non_blocking:
            # As torch does for accelerators: the caller is to wait for the copy.
            world.host_memory.pin(made)
    copy(world, tensor, made, non_blocking)
    return made


SPECIAL: dict[OpOverload, Callable[..., Any]] = {
    aten.empty.memory_format: _empty,
    aten.empty_strided.default: _empty_strided,
    aten._copy_from.default: _copy_from,
    aten._to_copy.default: _to_copy,
    aten._local_scalar_dense.default: _item,
    aten.resize_.default: _resize,
}

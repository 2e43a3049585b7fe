"""Checks of the arguments of moves and copies, and of the target device."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import torch
from torch.nn.parameter import is_lazy

from .._errors import MoveError
from .._modules._named import Source
from .._modules._traverse import FoundModule, Path, path_text
from ._plan import CopyPlan, Group


def device_of(device: torch.device | str | int) -> torch.device:
    """The device as tensors name it: ``cuda`` with its index, ``cpu`` without."""
    if not isinstance(device, (torch.device, str, int)):
        raise TypeError(
            f"memmap: device must be a torch.device, its name or its index, got {device!r} "
            "(give a type as dtype=)"
        )
    asked = torch.device(device)
    if asked.type in ("cpu", "meta"):
        return torch.device(asked.type)
    return asked if asked.index is not None else torch.empty(0, device=asked).device


def check_module_type(name: str, module: Source) -> None:
    """Raise a `TypeError` that names the function if its argument is not a module or mapping."""
    if not isinstance(module, (torch.nn.Module, Mapping)):
        raise TypeError(
            f"{name}: module must be a torch.nn.Module or a mapping with tensors in it, "
            f"got {type(module).__name__}"
        )


def check_dtype(dtype: torch.dtype | None) -> None:
    """Raise a `TypeError` if `dtype` is neither a floating nor a complex type."""
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"memory_aware_to: dtype must be a torch.dtype, got {dtype!r}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"memory_aware_to: dtype must be a floating or complex type, got {dtype}")


def check_holds_its_tensors(modules: Iterable[FoundModule]) -> None:
    """Raise a `MoveError` if a module is sharded by FSDP or compiled to TorchScript."""
    for path, submodule in modules:
        if isinstance(submodule, torch.jit.ScriptModule) or _is_sharded(submodule):
            raise MoveError(
                f"{path_text(path) or 'module'}: a module that moves must hold its tensors "
                f"itself, got {type(submodule).__name__} (move it before you shard or compile it)"
            )


def _is_sharded(module: torch.nn.Module) -> bool:
    # If FSDP was never imported, no module is an instance of its classes.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    names = ("FullyShardedDataParallel", "FSDPModule")
    return fsdp is not None and any(
        isinstance(module, getattr(fsdp, name)) for name in names if hasattr(fsdp, name)
    )


def check_initialized(plan: CopyPlan) -> None:
    """Raise a `MoveError` if a tensor is lazy."""
    for item in plan.unknown:
        if is_lazy(item.tensor):
            raise MoveError(
                f"{path_text(item.path)}: a tensor that moves must be initialized, "
                f"got {type(item.tensor).__name__}"
            )


def check_arrival(plan: CopyPlan, groups: Iterable[Group], target: torch.device | None) -> None:
    """Raise a `MoveError` if a tensor cannot exist on the target device, or has no data to move."""
    if target is None:
        return
    is_to_meta = target.type == "meta"
    for group in groups:
        piece = group.pieces[0]
        if piece.tensor.device.type == "meta" and not is_to_meta:
            raise MoveError(
                f"{path_text(piece.path)}: a tensor that moves must have data, "
                f"got a meta tensor on its way to {target}"
            )
        for piece in group.pieces if is_to_meta else []:
            if piece.tensor.is_quantized:
                raise _no_meta(piece.path, f"a quantized one of {piece.tensor.dtype}")
            if (piece.view.address - group.start) % (piece.view.itemsize or 1):
                raise _no_meta(piece.path, "one that starts inside an element of its group")
    for item, _ in plan.composites if is_to_meta else []:
        tensor = item.tensor
        if tensor.is_nested and tensor.layout is torch.strided and tensor.device != target:
            raise _no_meta(item.path, "a strided nested tensor")


def _no_meta(path: Path, what: str) -> MoveError:
    return MoveError(
        f"{path_text(path)}: a tensor that moves to meta must be of a kind that torch has there, "
        f"got {what}"
    )

"""Moves and casts of modules in which everything that shared memory still does."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch.nn.parameter import is_lazy

from ._aliases import held_outside, tell_of_move
from ._cast import cast_of
from ._errors import MoveError
from ._plan import Group, Plan, plan_of
from ._reach import Found, Path, path_text, reach
from ._state import state_tensors
from ._turns import Filler, Target, Turn, carry_out, joined, new_tensors, turns_of

M = TypeVar("M", bound=torch.nn.Module)

NOT_BOTH = (
    "memory_aware_to: low_memory must not be asked for together with non_blocking, got both "
    "(memory can be given up only when its bytes have arrived)"
)


def memory_aware_to(
    module: M,
    device: torch.device | str | int | None = None,
    dtype: torch.dtype | None = None,
    *,
    non_blocking: bool = False,
    pack: bool = False,
    strict: bool = False,
    attributes: bool = False,
    low_memory: bool = False,
) -> M:
    """Move or cast a module in place; all tensors that shared memory still share it.

    Parameters, buffers and their gradients are grouped by the storage they lie in. Each group
    that is elsewhere (or of another type) gets one new buffer, from its first byte to its last,
    and all its tensors become the same views of it. The objects stay the same, so that an
    optimizer made before the move holds the right ones; hooks stay, too. All groups are filled
    before the first tensor is changed: an error, out of memory included, changes nothing.

    Parameters
    ----------
    module : torch.nn.Module
        What to move.
    device : torch.device, str or int, optional
        Where to; where each tensor is, if not given.
    dtype : torch.dtype, optional
        The precision of floating and complex tensors, given by a type of either kind: real
        tensors stay real and complex ones complex, so ``float64`` and ``complex128`` ask for the
        same. Others stay as they are.
    non_blocking : bool, optional
        Whether the host may go on before the bytes have arrived, as in `torch.Tensor.to`.
    pack : bool, optional
        Whether to leave out gaps: a buffer for each set of tensors whose bounds overlap.
    strict : bool, optional
        Whether to raise, instead of to warn, if memory to be moved is also held outside.
    attributes : bool, optional
        Whether tensors in other attributes and containers of modules are moved, too.
    low_memory : bool, optional
        Whether to move one group after the other and to give up the memory of each as soon as it
        has moved, so that there is never more than the destination and one group too much. See
        the notes.

    Returns
    -------
    torch.nn.Module
        The module itself.

    Raises
    ------
    TypeError
        If `module` is no module, or `dtype` no floating or complex type of torch.
    ValueError
        If `low_memory` is asked for together with `non_blocking`.
    CastError
        If tensors that share memory cannot keep their proportions, or torch cannot convert a type.
    NonLeafError
        If a tensor has a history; its path is named.
    AliasError
        If `strict` is set and memory is held outside.
    MoveError
        If a meta tensor would need data, torch has no meta tensor like one that is to go to
        ``meta`` (quantized ones, for example), a lazy one is not initialized yet, the module is
        sharded by FSDP or compiled to TorchScript, a gradient does not fit its tensor, or a
        parameter that goes to another kind of device (to ``meta``, say) is saved by a graph. (One
        that a graph uses without saving it goes, and the graph then refuses to run backward.)

    Warns
    -----
    AliasWarning
        If memory to be moved is held outside of the tensors that are moved: by a plain attribute,
        another module, a graph. What is outside stays where it is, and keeps the old storage
        alive. (Memory that torch was only lent, as by ``from_numpy``, cannot be checked.)

    Notes
    -----
    With `low_memory`, a failure puts back what had moved: its memory is allocated again, the
    numbers are copied back from where they are, and the tensors become the same views of it.
    Objects, numbers, strides, types, devices and what is shared are then those from before; the
    storages are new ones, without the bytes that no tensor spanned. If even that fails, for want
    of memory, a `MoveError` names the tensors that stayed at the destination, whole. What cannot
    be brought back without loss is not given up early: the sources of casts that round, of moves
    to ``meta``, and memory that is held outside.

    The state of an optimizer (momentum, say) is not part of the module: after a move, load it
    anew with ``optimizer.load_state_dict(optimizer.state_dict())``.

    Examples
    --------
    >>> from memmap import overlaps
    >>> module = torch.nn.Module()
    >>> flat = torch.zeros(10)
    >>> module.a, module.b = torch.nn.Parameter(flat[:6]), torch.nn.Parameter(flat[4:])
    >>> del flat
    >>> before = module.a
    >>> module = memory_aware_to(module, dtype=torch.float64)
    >>> overlaps(module.a, module.b), module.a is before, module.a.dtype
    (True, True, torch.float64)
    """
    check_module_type("memory_aware_to", module)
    _check_dtype(dtype)
    target = Target(None if device is None else device_of(device), dtype)
    if low_memory and non_blocking:
        raise ValueError(NOT_BOTH)

    def fill(group: Group, device: torch.device) -> dict[int, torch.Tensor]:
        cast = None if dtype is None else cast_of(group, dtype)
        return new_tensors(group, device, cast, pack=pack, non_blocking=non_blocking)

    move(module, target, fill, strict=strict, low_memory=low_memory, attributes=attributes)
    return module


def move(
    module: torch.nn.Module,
    target: Target,
    fill: Filler,
    *,
    strict: bool,
    low_memory: bool,
    attributes: bool = False,
    others: Iterable[Found] = (),
    kept: Iterable[int] = (),
) -> None:
    """Give the tensors of a module, in place, what `fill` makes of their groups.

    Parameters
    ----------
    module : torch.nn.Module
        What to move.
    target : Target
        Where to, and what to cast to.
    fill : callable
        Makes the new tensors of a group.
    strict, low_memory, attributes : bool
        As for `memory_aware_to`.
    others : iterable of Found
        Tensors outside of the module that may hold its memory without a warning.
    kept : iterable of int
        Identities of storages that `low_memory` does not give up before the end.

    Raises
    ------
    MoveError
        As for `memory_aware_to`; nothing has changed then.
    """
    check_holds_its_tensors(module)
    found = state_tensors(module)
    if attributes:
        known = {id(item.tensor) for item in found}
        found += [item for item in reach(module).found if id(item.tensor) not in known]
    # Nothing else may refer to what is to move: it could not be freed before the end.
    turns, held = _planned(found, target, others, strict)
    try:
        carry_out(turns if low_memory else joined(turns), target, fill, held | set(kept))
    finally:
        for part in module.modules():
            if isinstance(part, torch.nn.RNNBase):
                part._init_flat_weights()


def device_of(device: torch.device | str | int) -> torch.device:
    """The device that a tensor would be on: ``cuda`` with its index, ``cpu`` without.

    Parameters
    ----------
    device : torch.device, str or int
        As in `torch.device`.

    Returns
    -------
    torch.device
        Compares equal to the device of tensors there.

    Examples
    --------
    >>> device_of("cpu:0"), device_of("cuda:1")
    (device(type='cpu'), device(type='cuda', index=1))
    """
    asked = torch.device(device)
    if asked.type in ("cpu", "meta"):
        return torch.device(asked.type)
    return asked if asked.index is not None else torch.empty(0, device=asked).device


def _planned(
    found: list[Found], target: Target, others: Iterable[Found], strict: bool
) -> tuple[list[Turn], set[int]]:
    """What is to move, and the identities of the storages that are held by anything else."""
    plan = plan_of([item._replace(owned=True) for item in found])
    for item in plan.unknown:
        if is_lazy(item.tensor):
            raise MoveError(
                f"{path_text(item.path)}: a tensor to be moved must be initialized, "
                f"got {type(item.tensor).__name__}"
            )
    groups = [group for group in plan.groups if _is_to_move(group, target)]
    check_arrival(plan, groups, target.device)
    held = outside = held_outside([plan])
    if held:
        known = {id(item.tensor) for item in found}
        rest = plan_of([item for item in others if id(item.tensor) not in known], detach=True)
        outside = held_outside([plan, rest])
    tell_of_move(groups, outside, strict)
    return turns_of(plan, groups, found), set(held)


def _is_to_move(group: Group, target: Target) -> bool:
    elsewhere = any(target.device not in (None, piece.tensor.device) for piece in group.pieces)
    return elsewhere or (target.dtype is not None and cast_of(group, target.dtype) is not None)


def check_module_type(name: str, module: torch.nn.Module) -> None:
    """Check that something is a module.

    Parameters
    ----------
    name : str
        Whose argument it is.
    module : torch.nn.Module
        Anything.

    Raises
    ------
    TypeError
        If it is no module.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{name}: module must be a torch.nn.Module, got {type(module).__name__}")


def _check_dtype(dtype: torch.dtype | None) -> None:
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"memory_aware_to: dtype must be a torch.dtype, got {dtype!r}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"memory_aware_to: dtype must be a floating or complex type, got {dtype}")


def check_holds_its_tensors(module: torch.nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule) or _is_sharded(part):
            raise MoveError(
                f"{name or 'module'}: a module to be moved must hold its tensors itself, got "
                f"{type(part).__name__} (move it before it is sharded or compiled)"
            )


def _is_sharded(module: torch.nn.Module) -> bool:
    # Nothing can be an instance of classes that were never imported.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    names = ("FullyShardedDataParallel", "FSDPModule")
    return fsdp is not None and any(
        isinstance(module, getattr(fsdp, name)) for name in names if hasattr(fsdp, name)
    )


def check_arrival(plan: Plan, groups: Iterable[Group], target: torch.device | None) -> None:
    """Check that what is to arrive on a device can be there, with data if need be.

    Parameters
    ----------
    plan : Plan
        What the tensors are made of.
    groups : iterable of Group
        Those of the plan that are moved or copied.
    target : torch.device or None
        Where to; None for where it is.

    Raises
    ------
    MoveError
        If meta tensors would have to become others, or others such as torch cannot have on
        ``meta``: quantized ones, nested ones that are strided, and elements that do not start at
        multiples of their size.
    """
    if target is None:
        return
    is_to_meta = target.type == "meta"
    for group in groups:
        piece = group.pieces[0]
        if piece.tensor.device.type == "meta" and not is_to_meta:
            raise MoveError(
                f"{path_text(piece.path)}: a tensor to be moved must have data, "
                f"got a meta tensor on its way to {target}"
            )
        for piece in group.pieces if is_to_meta else []:
            if piece.tensor.is_quantized:
                raise _no_meta(piece.path, f"a quantized one of {piece.tensor.dtype}")
            if (piece.view.address - group.start) % (piece.view.itemsize or 1):
                raise _no_meta(piece.path, "one that starts amid an element of what it is part of")
    for item, _ in plan.composites if is_to_meta else []:
        tensor = item.tensor
        if tensor.is_nested and tensor.layout is torch.strided and tensor.device != target:
            raise _no_meta(item.path, "a nested one that is strided")


def _no_meta(path: Path, what: str) -> MoveError:
    return MoveError(
        f"{path_text(path)}: a tensor on its way to meta must be one that torch has there, "
        f"got {what}"
    )

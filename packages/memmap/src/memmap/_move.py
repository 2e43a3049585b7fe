"""Moves and casts of modules in which everything that shared memory still does."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import torch
from torch.nn.parameter import is_lazy

from ._cast import cast_of, cast_span, new_type
from ._commit import commit
from ._errors import AliasError, AliasWarning, MoveError
from ._holders import n_outside_holders
from ._plan import Group, Plan, plan_of
from ._reach import path_text, reach
from ._region import copy_span, spans_of
from ._state import state_tensors

M = TypeVar("M", bound=torch.nn.Module)

Filler: TypeAlias = Callable[[Group, torch.device], dict[int, torch.Tensor]]
"""Makes the plain tensors of a group on a device, by the id of their source."""


def memory_aware_to(
    module: M,
    device: torch.device | str | int | None = None,
    dtype: torch.dtype | None = None,
    *,
    non_blocking: bool = False,
    pack: bool = False,
    strict: bool = False,
    attributes: bool = False,
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

    Returns
    -------
    torch.nn.Module
        The module itself.

    Raises
    ------
    TypeError
        If `dtype` is neither floating nor complex.
    CastError
        If tensors that share memory cannot keep their proportions.
    NonLeafError
        If a tensor has a history; its path is named.
    AliasError
        If `strict` is set and memory is held outside.
    MoveError
        If a meta tensor would need data, a lazy one is not initialized yet, the module is sharded
        by FSDP or compiled to TorchScript, or a tensor cannot be exchanged while something refers
        to it.

    Warns
    -----
    AliasWarning
        If memory to be moved is held outside of the tensors that are moved: by a plain attribute,
        another module, a graph. What is outside stays where it is, and keeps the old storage
        alive. (Memory that torch was only lent, as by ``from_numpy``, cannot be checked.)

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
    target = None if device is None else device_of(device)
    _check_dtype(dtype)

    def fill(group: Group, device: torch.device) -> dict[int, torch.Tensor]:
        cast = None if dtype is None else cast_of(group, dtype)
        made: dict[int, torch.Tensor] = {}
        for span in spans_of(group, pack):
            if cast is not None:
                made.update(cast_span(span, group, cast, device, non_blocking))
                continue
            buffer = copy_span(span, group, device, non_blocking)
            made.update({id(piece.tensor): buffer.view(piece) for piece in span.pieces})
        return made

    move(module, target, dtype, fill, strict=strict, attributes=attributes)
    return module


def move(
    module: torch.nn.Module,
    target: torch.device | None,
    dtype: torch.dtype | None,
    fill: Filler,
    *,
    strict: bool,
    attributes: bool = False,
    holders: Iterable[torch.Tensor] = (),
) -> None:
    """Give the tensors of a module, in place, what `fill` makes of their groups.

    Parameters
    ----------
    module : torch.nn.Module
        What to move.
    target : torch.device or None
        Where to; None for where each group is.
    dtype : torch.dtype or None
        What to cast to, if anything.
    fill : callable
        Makes the new tensors of a group.
    strict, attributes : bool
        As for `memory_aware_to`.
    holders : iterable of torch.Tensor
        Tensors outside of the module that may hold its memory without a warning.

    Raises
    ------
    MoveError
        As for `memory_aware_to`; nothing has changed then.
    """
    _check_module(module)
    found = state_tensors(module)
    if attributes:
        known = {id(item.tensor) for item in found}
        found += [item for item in reach(module).found if id(item.tensor) not in known]
    plan = plan_of([item._replace(owned=True) for item in found])
    for item in plan.unknown:
        if is_lazy(item.tensor):
            raise MoveError(
                f"{path_text(item.path)}: a tensor to be moved must be initialized, "
                f"got {type(item.tensor).__name__}"
            )
    groups = [group for group in plan.groups if _is_to_move(group, target, dtype)]
    for group in groups:
        check_data(group, target)
    _check_aliases(groups, plan, holders, strict)
    with torch.no_grad():
        plain: dict[int, torch.Tensor] = {}
        for group in groups:
            plain.update(fill(group, target or group.pieces[0].tensor.device))
        for item, composite in plan.composites:
            parts = [plain.get(id(part), part) for part in composite.parts]
            if any(id(part) in plain for part in composite.parts):
                plain[id(item.tensor)] = composite.assemble(parts)
        for item in plan.unknown:
            tensor = item.tensor.detach()
            plain[id(item.tensor)] = tensor.to(target, dtype and new_type(tensor, dtype))
    recurrent = [part for part in module.modules() if isinstance(part, torch.nn.RNNBase)]
    for part in recurrent:
        part._flat_weight_refs = []  # weak references forbid the exchange of a tensor
    try:
        commit(found, plain)
    finally:
        for part in recurrent:
            part._init_flat_weights()


def device_of(device: torch.device | str | int) -> torch.device:
    """The device that a tensor would be on: ``cuda`` with its index.

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
    >>> device_of("cpu")
    device(type='cpu')
    """
    return torch.empty(0, device=device).device


def _is_to_move(group: Group, target: torch.device | None, dtype: torch.dtype | None) -> bool:
    elsewhere = any(target not in (None, piece.tensor.device) for piece in group.pieces)
    return elsewhere or (dtype is not None and cast_of(group, dtype) is not None)


def _check_dtype(dtype: torch.dtype | None) -> None:
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"memory_aware_to: dtype must be a floating or complex type, got {dtype}")


def _check_module(module: torch.nn.Module) -> None:
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


def check_data(group: Group, target: torch.device | None) -> None:
    """Check that there are data, if the tensors of a group are to arrive with any.

    Parameters
    ----------
    group : Group
        What to move or copy.
    target : torch.device or None
        Where to; None for where it is.

    Raises
    ------
    MoveError
        If meta tensors would have to become others.
    """
    piece = group.pieces[0]
    if piece.tensor.device.type == "meta" and target is not None and target.type != "meta":
        raise MoveError(
            f"{path_text(piece.path)}: a tensor to be moved must have data, "
            f"got a meta tensor on its way to {target}"
        )


def _check_aliases(
    groups: list[Group], plan: Plan, holders: Iterable[torch.Tensor], strict: bool
) -> None:
    """Warn or raise if memory to be moved is held by tensors that are not."""
    # Parts of sparse and nested tensors are made when they are asked for: their holders cannot
    # be told from others.
    parts = {id(part) for _, composite in plan.composites for part in composite.parts}
    known = list(holders)
    held = []
    for group in groups:
        if any(id(piece.tensor) in parts for piece in group.pieces):
            continue
        outside = n_outside_holders([piece.tensor for piece in group.pieces], known)
        if outside:
            names = ", ".join(path_text(piece.path) for piece in group.pieces)
            held.append(f"{names} (by {outside})")
    if held:
        text = (
            "memory to be moved should be held by the tensors that are moved alone, else the old "
            f"storage stays alive; got other holders for {'; '.join(held)}"
        )
        if strict:
            raise AliasError(text)
        warnings.warn(text, AliasWarning, stacklevel=4)

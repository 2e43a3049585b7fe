"""Moves and casts of modules in which everything that shared memory still does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch.nn.parameter import is_lazy

from .._errors import MoveError
from .._modules._at_once import Call, keeps_grad_mode
from .._modules._traverse import Found, path_text, state_tensors, traverse
from ._aliases import held_outside, tell_of_move
from ._buffers import new_views
from ._cast import cast_of
from ._checks import (
    check_arrival,
    check_dtype,
    check_holds_its_tensors,
    check_module_type,
    device_of,
)
from ._move_steps import Filler, Target, carry_out, move_steps
from ._plan import Group, Plan, plan_of

M = TypeVar("M", bound=torch.nn.Module)

NOT_BOTH = (
    "memory_aware_to: low_memory must not be asked for together with non_blocking, got both "
    "(memory can be given up only when its bytes have arrived)"
)


@keeps_grad_mode
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
        What to move; it is returned.
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
        has moved: there is never more than the destination and one group too much. See the notes.

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
        another module, a graph. That stays where it is, and keeps the old storage alive. There is
        no warning if you hold, outside of the module, the whole tensor that the moved ones are
        views of: it stays on purpose. (Parameters do not know what they were views of. Memory that
        torch was only lent, as by ``from_numpy``, cannot be checked.)

    Notes
    -----
    With `low_memory`, a failure brings back what had moved, to new storages without the bytes that
    no tensor spanned: objects, numbers, strides, types, devices and what is shared are then those
    from before. If even that fails, for want of memory, a `MoveError` names the tensors that stayed
    at the destination, whole. What cannot be brought back without loss is not given up early: the
    sources of casts that round, of moves to ``meta``, and memory that is held outside.

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
    check_dtype(dtype)
    target = Target(None if device is None else device_of(device), dtype)
    if low_memory and non_blocking:
        raise ValueError(NOT_BOTH)

    def fill(group: Group, device: torch.device) -> dict[int, torch.Tensor]:
        cast = None if dtype is None else cast_of(group, dtype)
        return new_views(group, device, pack, cast, non_blocking)

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
    kept: Iterable[object] = (),
    further: Iterable[tuple[Call, Call]] = (),
) -> None:
    """Give the tensors of a module, in place, what `fill` makes of their groups.

    Tensors outside of the module that may hold its memory without a warning are in `others`; for
    `kept` and `further`, see `carry_out`.
    """
    check_holds_its_tensors(module)
    found = state_tensors(module)
    if attributes:
        known = {id(item.tensor) for item in found}
        found += [item for item in traverse(module).found if id(item.tensor) not in known]
    # Nothing else may refer to what is to move: it could not be freed before the end.
    steps, held = _planned(module, found, target, others, strict, low_memory)
    try:
        carry_out(steps, target, fill, {*held, *kept}, further)
    finally:
        for part in module.modules():
            if isinstance(part, torch.nn.RNNBase):
                part._init_flat_weights()


def _planned(
    module: torch.nn.Module,
    found: list[Found],
    target: Target,
    others: Iterable[Found],
    strict: bool,
    low_memory: bool,
) -> tuple[list[Plan], Iterable[object]]:
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
    tell_of_move(groups, outside, strict, module)
    return move_steps(plan, groups, all_at_once=not low_memory), held


def _is_to_move(group: Group, target: Target) -> bool:
    elsewhere = any(target.device not in (None, piece.tensor.device) for piece in group.pieces)
    return elsewhere or (target.dtype is not None and cast_of(group, target.dtype) is not None)

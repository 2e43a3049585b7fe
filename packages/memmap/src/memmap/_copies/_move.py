"""Moves and casts of modules that keep shared memory shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch

from .._flags import check_flags
from .._modules._at_once import Call, keeps_grad_mode
from .._modules._composite import take_apart
from .._modules._named import Source, contents_of
from .._modules._traverse import FoundTensor, is_step_count, traverse
from .._torch import TORCH_APPLY
from .._views._address import is_wrapper
from ._aliases import held_outside, warn_of_move
from ._buffers import new_views
from ._by_class import add_casts_by_class
from ._cast import cast_of
from ._checks import (
    check_arrival,
    check_dtype,
    check_holds_its_tensors,
    check_initialized,
    check_module_type,
    device_of,
)
from ._move_steps import Filler, Target, carry_out, move_steps
from ._plan import CopyPlan, Group, copy_plan

M = TypeVar("M", bound=Source)

NOT_BOTH = (
    "memory_aware_to: low_memory must not be combined with non_blocking, got both "
    "(memory can be freed only when its bytes have arrived)"
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

    Parameters, buffers and their gradients change. Tensors of one storage get one new buffer, from
    the first byte that they touch to the last, and are the same views of it. The tensor objects
    stay the same, so an existing optimizer stays valid; hooks stay, too. If the call fails, for
    example because memory runs out, nothing has changed.

    Parameters
    ----------
    module : torch.nn.Module or mapping
        The module to move, or a mapping with tensors in it: all tensors in the mapping and in
        mappings, lists, tuples and sets within it change in place. It is returned.
    device : torch.device, str or int, optional
        The target device. If not given, each tensor stays on its device.
    dtype : torch.dtype, optional
        The precision of floating and complex tensors. Real tensors stay real and complex ones
        complex, so ``float64`` and ``complex128`` do the same. Other tensors keep their type, and
        so do counts of steps in states of optimizers (``state_dict["state"][0]["step"]``), and
        gradients of another type than their tensor (``grad_dtype``).
    non_blocking : bool, optional
        Let the host continue before the bytes have arrived, as in `torch.Tensor.to`.
    pack : bool, optional
        Leave out gaps: make one buffer for each set of tensors whose bounds overlap.
    strict : bool, optional
        Raise `AliasError` instead of a warning if memory that moves is also held outside.
    attributes : bool, optional
        Also move tensors in other attributes and containers of modules.
    low_memory : bool, optional
        Move one storage after the other and free each as soon as it has moved. The peak is then the
        destination and one more storage. See the notes.

    Raises
    ------
    TypeError
        If `module` is neither a module nor a mapping, if a mapping has other objects in it, or if
        `dtype` is not a floating or complex type of torch.
    ValueError
        If `low_memory` and `non_blocking` are both set.
    CastError
        If elements of tensors that share memory would grow by different factors, torch cannot
        convert a type, or the class of a wrapper subclass cannot cast it.
    NonLeafError
        If a tensor has a history. The error names its path.
    AliasError
        If `strict` is set and memory is held outside.
    MoveError
        If a tensor cannot move: a meta tensor that would need data, a kind of which torch has no
        meta tensors, one that its class cannot move, a lazy tensor, a gradient that does not fit
        its tensor, or a parameter that a graph has saved and that goes to another kind of device.
        If the module is sharded by FSDP or compiled to TorchScript.

    Warns
    -----
    AliasWarning
        If memory that moves is also held outside: by a plain attribute, another module, a graph.
        The other holder keeps the old storage, which stays in memory. There is no warning if you
        hold, outside of the module, the whole tensor that the moved ones are views of.
        (Parameters do not know their base. Memory lent to torch, as by ``from_numpy``, cannot be
        checked.)

    Notes
    -----
    With `low_memory`, a failure moves everything back, to new storages that hold only the bytes
    that tensors span: objects, numbers, strides, types, devices and sharing are as before. If the
    move back fails because memory runs out, a `MoveError` names the tensors that stayed, undamaged,
    at the destination. Memory is not freed early if it could not be restored exactly: the sources
    of casts that round, of moves to ``meta``, and memory that is held outside.

    If a class overrides the method with which ``Module.to`` converts tensors, as metrics do, it is
    called after the move; an error that it raises is raised after the tensors have moved. In a
    cast, tensors that it does not convert keep their type.

    The state of an optimizer (momentum, say) is not part of the module. After a move, load it
    again with ``optimizer.load_state_dict(optimizer.state_dict())``.

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
    check_flags(
        "memory_aware_to",
        non_blocking=non_blocking,
        strict=strict,
        attributes=attributes,
        low_memory=low_memory,
    )
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
    module: Source,
    target: Target,
    fill: Filler,
    *,
    strict: bool,
    low_memory: bool,
    attributes: bool = False,
    others: Iterable[FoundTensor] = (),
    kept: Iterable[object] = (),
    further: Iterable[tuple[Call, Call]] = (),
) -> None:
    """Give the tensors of a module, in place, the memory that `fill` makes for their groups.

    Tensors in `others` are outside of the module and may hold its memory without a warning. See
    `carry_out` for `kept` and `further`.
    """
    tensors, found = contents_of(module)
    if attributes:
        reached, ids = traverse(module), {id(item.tensor) for item in tensors}
        found = reached.modules
        tensors += [item for item in reached.tensors if id(item.tensor) not in ids]
        wrappers = [item.tensor for item in tensors if is_wrapper(item.tensor)]
        inner = {id(part) for whole in map(take_apart, wrappers) if whole for part in whole.parts}
        tensors = [item for item in tensors if id(item.tensor) not in inner]
    check_holds_its_tensors(found)
    modules = [submodule for _, submodule in found]
    uncast = set() if target.dtype is None else _uncast(module, modules, Target(None, target.dtype))
    # No other name may refer to the memory that moves, or it could not be freed before the end.
    steps, held = _planned(module, tensors, target, others, strict, low_memory, uncast)
    try:
        carry_out(steps, target, fill, {*held, *kept}, further)
        _call_overrides(modules, target.converted)
    finally:
        for submodule in modules:
            if isinstance(submodule, torch.nn.RNNBase):
                submodule._init_flat_weights()


def _call_overrides(
    modules: Sequence[torch.nn.Module], convert: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.nn.Module]:
    """Call ``_apply`` as `torch.nn.Module.to` does, if a class overrides it for some tensors.

    Returns the modules that were asked; their own methods ask the modules in them.
    """
    if all(getattr(module._apply, "__func__", None) in TORCH_APPLY for module in modules):
        return []
    inner = {id(child) for module in modules for child in module.modules() if child is not module}
    # torch would replace wrappers, which drops their attributes. It leaves out parameters of None.
    hidden = [
        (module._parameters, name, parameter)
        for module in modules
        for name, parameter in module._parameters.items()
        if parameter is not None and is_wrapper(parameter)
    ]
    outermost = [module for module in modules if id(module) not in inner]
    try:
        for parameters, name, _ in hidden:
            parameters[name] = None
        for module in outermost:
            module._apply(convert)
    finally:
        for parameters, name, parameter in hidden:
            parameters[name] = parameter
    return outermost


def _uncast(source: Source, modules: Sequence[torch.nn.Module], cast: Target) -> set[int]:
    """The ids of tensors whose type the overridden ``_apply`` of their module does not change."""
    asked: set[int] = set()
    traversed: set[int] = set()

    def ask(tensor: torch.Tensor) -> torch.Tensor:
        if not traversed:  # most modules override nothing, and are never asked
            traversed.update(traverse(source).seen)
        if id(tensor) not in traversed:
            return cast.converted(tensor)  # a new one, with which the class learns the new type
        asked.add(id(tensor))
        return tensor

    tensors = [
        item.tensor for module in _call_overrides(modules, ask) for item in contents_of(module)[0]
    ]
    return {id(tensor) for tensor in tensors if not is_wrapper(tensor)} - asked


def _planned(
    module: Source,
    tensors: list[FoundTensor],
    target: Target,
    others: Iterable[FoundTensor],
    strict: bool,
    low_memory: bool,
    uncast: set[int],
) -> tuple[list[CopyPlan], Iterable[object]]:
    """Plans of the steps, and the identities of the storages that are held outside."""
    for tensor, path, _ in tensors:
        gradient = tensor.grad if tensor.is_leaf else None
        if is_step_count(path):
            uncast.add(id(tensor))
        if gradient is not None and gradient.dtype != tensor.dtype:  # as its grad_dtype allows
            uncast.add(id(gradient))
    plan = copy_plan([item._replace(owned=True) for item in tensors], uncast=uncast)
    check_initialized(plan)
    add_casts_by_class(plan, target.dtype, uncast)
    groups = [group for group in plan.groups if _is_to_move(group, target)]
    check_arrival(plan, groups, target.device)
    held = outside = held_outside([plan])
    if held:
        ids = {id(item.tensor) for item in tensors}
        rest = copy_plan([item for item in others if id(item.tensor) not in ids], detach=True)
        outside = held_outside([plan, rest])
    warn_of_move(groups, outside, strict, module)
    return move_steps(plan, groups, all_at_once=not low_memory), held


def _is_to_move(group: Group, target: Target) -> bool:
    elsewhere = any(target.device not in (None, piece.tensor.device) for piece in group.pieces)
    return elsewhere or (target.dtype is not None and cast_of(group, target.dtype) is not None)

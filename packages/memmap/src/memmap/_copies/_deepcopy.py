"""Deep copies of modules in which everything that shared memory still does."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any, TypeVar

import torch

from .._modules._at_once import keeps_grad_mode
from .._modules._counters import Counters
from .._modules._rebuild import dressed, slots_of
from .._modules._reconstruct import reconstruct
from .._modules._traverse import Found, traverse
from ._aliases import tell_of_copy
from ._checks import check_module_type
from ._deepcopy_memo import CopiedStorages
from ._plan import Plan, plan_of
from ._unshared import UnsharedTensors, split_unshared

M = TypeVar("M", bound=torch.nn.Module)


@keeps_grad_mode
def memory_aware_deepcopy(
    module: M,
    memo: dict[int, Any] | None = None,
    *,
    pack: bool = False,
    detach: bool = False,
    hooks: bool = False,
) -> M:
    """Deep copy of a module in which all tensors that shared memory still share it.

    Parameters, buffers, gradients and the tensors in attributes and containers are grouped by the
    storage they lie in; each group gets one new buffer, from its first byte to its last, and
    every tensor is made again as the same view of it: size, stride, offset, dtype, conjugate and
    negative bits, and whether it requires a gradient. Everything else is copied as by
    `copy.deepcopy`, which may be called inside and outside of this: with `memo`, objects and
    storages that were copied before are found again.

    Parameters
    ----------
    module : torch.nn.Module
        What to copy. Its own ``__deepcopy__`` is not called (so it may call this), unless it comes
        from torch (graphs, TorchScript); the methods of the reduce protocol (``__getstate__``,
        ``__setstate__``) are.
    memo : dict, optional
        The memo of a surrounding `copy.deepcopy`.
    pack : bool, optional
        Whether to leave out gaps: a buffer for each set of tensors whose bounds overlap, instead
        of one for all of the storage. Tensors in different buffers are unrelated afterwards.
    detach : bool, optional
        Whether tensors with a history are copied without it, instead of being refused.
    hooks : bool, optional
        Whether the hooks of tensors are copied, too: a bound method of the module is bound to the
        copy then. Hooks of modules are copied with them in any case.

    Returns
    -------
    torch.nn.Module
        An independent copy on the same devices.

    Raises
    ------
    TypeError
        If `module` is no module, or `memo` no dictionary.
    NonLeafError
        If a tensor has a history and `detach` is not set; its path is named.

    Warns
    -----
    AliasWarning
        If memory is also held outside of the module (by another tensor, a graph): from that, the
        copy is apart. Inside of a larger copy, with `memo`, there is no such warning: what else
        the larger copy holds may stay related, and is not known before its end.

    Notes
    -----
    An object with a ``__deepcopy__`` of its own is left to copy itself; tensors in it stay
    related to those of the module, as far as attributes and items lead to them. NumPy arrays are
    copied by NumPy, apart from all tensors. Tensors of unknown layout (opaque tensors, wrapper
    subclasses without ``__tensor_flatten__``) are copied one by one by their own ``__deepcopy__``.

    Examples
    --------
    >>> from memmap import overlaps
    >>> module = torch.nn.Module()
    >>> flat = torch.zeros(10)
    >>> module.a, module.b = torch.nn.Parameter(flat[:6]), torch.nn.Parameter(flat[4:])
    >>> del flat  # else there is a warning that the copy is apart from it
    >>> twin = memory_aware_deepcopy(module)
    >>> overlaps(twin.a, twin.b), overlaps(twin.a, module.a)
    (True, False)
    """
    check_module_type("memory_aware_deepcopy", module)
    if memo is not None and not isinstance(memo, dict):
        raise TypeError(
            f"memory_aware_deepcopy: memo must be the dictionary of a deep copy, got {memo!r}"
        )
    is_outermost = memo is None
    memo = {} if memo is None else memo
    known = memo.get(id(module))
    if known is not None:
        return known  # type: ignore[no-any-return]  # what was put there for this module
    storages = CopiedStorages.of(memo)
    if id(module) in storages.reached:
        return reconstruct(module, memo)
    reached = traverse(module)
    found, cloned = reached.found, []
    if not is_outermost:
        cloned = _cloned_by_torch(found, memo, storages)
        found = [item for item in found if id(item.tensor) not in memo] + cloned
    known = {id(item.tensor) for item in cloned}
    unshared, others = (
        split_unshared(found) if storages.is_empty() else (UnsharedTensors([], []), found)
    )
    plan = plan_of(others, detach)
    if known:
        unshared = unshared.without(known)
        plan.groups = [
            group
            for group in plan.groups
            if any(id(piece.tensor) not in known for piece in group.pieces)
        ]
    if is_outermost:
        tell_of_copy(plan, unshared.suspects())
    # Ids in the memo are true as long as their objects live.
    memo.setdefault(id(memo), []).append((reached, plan))
    _clone(unshared, memo, storages)  # first: parts of sparse tensors may be views of these
    copied = copy_tensors(
        plan, storages.copy_groups(plan.groups, pack), memo, storages.counters, known=known
    )
    ours = copied if is_outermost else [item.tensor for item in unshared.items] + copied
    storages.made.update({id(source): memo[id(source)] for source in ours})
    sources = [item.tensor for item in unshared.items] + copied
    attributed = [source for source in sources if hooks or id(source) in reached.attributed]
    # Parameters that torch has cloned lack what they carry.
    attributed += [item.tensor for item in cloned if id(item.tensor) in reached.attributed]

    def complete() -> None:
        for source in attributed:
            with_hooks = hooks and id(source) not in known
            copy_attachments(source, memo[id(source)], memo, with_hooks)

    storages.reached |= reached.seen
    return reconstruct(module, memo, complete)


def copy_tensors(
    plan: Plan,
    plain: dict[int, torch.Tensor],
    memo: dict[int, Any],
    counters: Counters,
    device: torch.device | None = None,
    known: Container[int] = (),
) -> list[torch.Tensor]:
    """Put a copy of every tensor of a plan into a memo.

    Parameters
    ----------
    plan : Plan
        What to copy.
    plain : dict of int to torch.Tensor
        Plain tensors for all pieces, by the id of their source; composites are added.
    memo : dict
        Gets the copies, under the ids of their sources.
    counters : Counters
        Which copies there are already that count writes together with these.
    device : torch.device, optional
        Where tensors of unknown layout are sent. If not given, they are left to copy themselves.
    known : container of int, optional
        Ids of the sources whose copies are in the memo, and are to get new memory.

    Returns
    -------
    list of torch.Tensor
        The sources of the copies that were made; what these carry is not copied yet.
    """
    with torch.no_grad():
        pieces = [piece.tensor for group in plan.groups for piece in group.pieces]
        counters.share(pieces, plain)
        for item, composite in plan.composites:
            plain[id(item.tensor)] = composite.assemble([plain[id(p)] for p in composite.parts])
        for item in plan.unknown if device else []:
            plain[id(item.tensor)] = item.tensor.detach().to(device, copy=True)
    sources = [item.tensor for item in plan.found if id(item.tensor) in plain]
    for source in sources:
        made = dressed(plain[id(source)], source)
        if id(source) in known:
            torch._C._swap_tensor_impl(memo[id(source)], made)
        else:
            memo[id(source)] = made
    return sources


def _cloned_by_torch(
    found: list[Found], memo: dict[int, Any], storages: CopiedStorages
) -> list[Found]:
    """Parameters that a larger copy has met before, and that torch has taken out of their memory.

    What else somebody has put into the memo stands for something else, and stays as it is.
    """
    known = [
        item
        for item in found
        if id(item.tensor) in memo
        and id(item.tensor) not in storages.made
        and type(item.tensor) is torch.nn.Parameter
        and item.tensor.layout is torch.strided
        and not item.tensor.is_nested
    ]
    if not known:
        return []
    # Here `copy.deepcopy` keeps what it has copied, as long as the memo lives.
    alive = {id(kept) for kept in memo.get(id(memo), ())}
    return [item for item in known if id(item.tensor) in alive]


def _clone(unshared: UnsharedTensors, memo: dict[int, Any], storages: CopiedStorages) -> None:
    """Put clones of tensors into the memo."""
    sources = [item.tensor for item in unshared.items]
    make = torch.Tensor._make_subclass  # as in `dressed`, once for each of many tensors
    with torch.no_grad():
        made = [
            source.clone()
            if type(source) is torch.Tensor
            else make(type(source), source.clone(), source.requires_grad)
            for source in sources
        ]
        for source, copied in zip(sources, made, strict=True):
            if source.requires_grad and type(source) is torch.Tensor:
                copied.requires_grad_()
    memo.update(zip(map(id, sources), made, strict=True))
    storages.clones.update(zip(unshared.storages, made, strict=True))
    storages.counters.add(sources, made)


def copy_attachments(
    source: torch.Tensor, made: torch.Tensor, memo: dict[int, Any], hooks: bool = False
) -> None:
    """Copy what a tensor carries: gradient, attributes and, if asked for, hooks.

    Parameters
    ----------
    source : torch.Tensor
        The tensor.
    made : torch.Tensor
        Its copy.
    memo : dict
        The memo of the deep copy, with the copies of all tensors.
    hooks : bool, optional
        Whether to register the hooks of `source`.
    """
    if source.is_leaf and source.grad is not None:
        made.grad = copy.deepcopy(source.grad, memo)
    # What a fake tensor pretends to be, and the parts of a wrapper, are the copy's own already.
    for name, value in source.__dict__.items():
        if name not in made.__dict__:
            made.__dict__[name] = copy.deepcopy(value, memo)
    for name in slots_of(source):
        if not hasattr(made, name):
            setattr(made, name, copy.deepcopy(getattr(source, name), memo))
    if hooks:
        for hook in (source._backward_hooks or {}).values():
            made.register_hook(copy.deepcopy(hook, memo))  # type: ignore[no-untyped-call]  # of torch
        for hook in (getattr(source, "_post_accumulate_grad_hooks", None) or {}).values():
            copied = copy.deepcopy(hook, memo)
            made.register_post_accumulate_grad_hook(copied)  # type: ignore[no-untyped-call]

"""Deep copies of modules in which everything that shared memory still does."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any, TypeVar

import torch

from .._modules._at_once import keeps_grad_mode
from .._modules._counters import Counters
from .._modules._rebuild import dressed
from .._modules._reconstruct import reconstruct
from .._modules._traverse import Found, attributes_of, traverse
from ._aliases import tell_of_copy
from ._checks import check_module_type
from ._deepcopy_memo import CopiedStorages
from ._plan import Plan, plan_of
from ._unshared import split_unshared

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
        What to copy, on the same devices. Its own ``__deepcopy__`` is not called (so it may call
        this), unless it comes from torch (graphs, TorchScript); the methods of the reduce protocol
        (``__getstate__``, ``__setstate__``) are.
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
        copy is apart. Inside of a larger copy, with `memo`, what else is held is not known, and
        there is no warning.

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
    known: M | None = memo.get(id(module))
    if known is not None:
        return known
    storages = CopiedStorages.of(memo)
    if id(module) in storages.reached:
        return reconstruct(module, memo)
    reached = traverse(module)
    found, cloned = reached.found, set[int]()
    if not is_outermost:
        cloned = _cloned_by_torch(found, memo, storages)
        found = [item for item in found if id(item.tensor) not in memo or id(item.tensor) in cloned]
    unshared, others = split_unshared(found) if storages.is_empty() else ([], found)
    plan = plan_of(others, detach)
    if is_outermost:
        tell_of_copy(plan)
    # Ids in the memo are true as long as their objects live.
    memo.setdefault(id(memo), []).append((reached, plan))
    # Clones come first: parts of sparse tensors may be views of them.
    sources = [item.tensor for item in unshared]
    memo |= storages.clone([source for source in sources if id(source) not in cloned])
    plain: dict[int, torch.Tensor] = {}
    for group in plan.groups:
        plain |= storages.copy_group(group, pack)
    sources += put_copies(plan, plain, memo, storages.counters, cloned=cloned)
    storages.made |= {id(source): memo[id(source)] for source in sources}
    storages.reached |= reached.seen
    attributed = [source for source in sources if hooks or id(source) in reached.attributed]

    def complete() -> None:
        for source in attributed:
            copy_attachments(source, memo[id(source)], memo, hooks)

    return reconstruct(module, memo, complete)


def put_copies(
    plan: Plan,
    plain: dict[int, torch.Tensor],
    memo: dict[int, Any],
    counters: Counters,
    device: torch.device | None = None,
    cloned: Container[int] = (),
) -> list[torch.Tensor]:
    """Put a copy of every tensor of a plan, made of those of its pieces, into a memo; the sources.

    What the copies carry is not copied yet. Tensors of unknown layout are sent to the device, or
    left to copy themselves if there is none. Copies of the `cloned` ones, by the ids of their
    sources, are in the memo already, and only get their memory from here.
    """
    with torch.no_grad():
        counters.share([piece.tensor for piece in plan.pieces], plain)
        for item in plan.unknown if device else []:
            plain[id(item.tensor)] = item.tensor.detach().to(device, copy=True)
        plan.assemble(plain, lambda part: copy.deepcopy(part, memo))
    sources = [item.tensor for item in plan.found if id(item.tensor) in plain]
    for source in sources:
        made = dressed(plain[id(source)], source)
        if id(source) in cloned:
            torch._C._swap_tensor_impl(memo[id(source)], made)
        else:
            memo[id(source)] = made
    return sources


def _cloned_by_torch(
    found: list[Found], memo: dict[int, Any], storages: CopiedStorages
) -> set[int]:
    """Parameters that a larger copy has met before, and that torch has taken out of their memory.

    What else somebody has put into the memo stands for something else, and stays as it is.
    """
    known = {
        id(item.tensor)
        for item in found
        if id(item.tensor) in memo
        and id(item.tensor) not in storages.made
        and type(item.tensor) is torch.nn.Parameter
        and item.tensor.layout is torch.strided
        and not item.tensor.is_nested
    }
    # Here `copy.deepcopy` keeps what it has copied, as long as the memo lives.
    return known & {id(kept) for kept in memo.get(id(memo), ())} if known else known


def copy_attachments(
    source: torch.Tensor, made: Any, memo: dict[int, Any], hooks: bool = False
) -> None:
    """Copy what a tensor carries to its copy: gradient, attributes and, if asked for, hooks."""
    if source.is_leaf and source.grad is not None:
        made.grad = copy.deepcopy(source.grad, memo)
    # What a fake tensor pretends to be, and the parts of a wrapper, are the copy's own already.
    own = attributes_of(made)
    for name, value in attributes_of(source).items():
        if name not in own:
            object.__setattr__(made, name, copy.deepcopy(value, memo))
    if hooks:
        for hook in (source._backward_hooks or {}).values():
            made.register_hook(copy.deepcopy(hook, memo))
        for hook in (getattr(source, "_post_accumulate_grad_hooks", None) or {}).values():
            made.register_post_accumulate_grad_hook(copy.deepcopy(hook, memo))

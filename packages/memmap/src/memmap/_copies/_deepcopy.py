"""Deep copies of modules that keep shared memory shared."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any, TypeVar

import torch

from .._flags import check_flags
from .._modules._at_once import keeps_grad_mode
from .._modules._counters import Counters
from .._modules._gradients import give_gradient
from .._modules._named import Source
from .._modules._rebuild import with_class_of
from .._modules._reconstruct import reconstruct
from .._modules._traverse import FoundTensor, attributes_of, path_text, traverse
from .._torch import swap_memory
from ._aliases import warn_of_copy
from ._by_class import sent_by_class
from ._checks import check_module_type
from ._deepcopy_memo import CopiedStorages
from ._plan import CopyPlan, copy_plan
from ._unshared import split_unshared

M = TypeVar("M", bound=Source)

# Attributes of wrappers in which torch keeps sizes as C pointers, to find them faster.
_CACHES = ("_sym_sizes_capsule", "_sym_strides_capsule")


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

    Parameters, buffers, gradients and the tensors in attributes and containers are grouped by
    their storage. Each group gets one new buffer, from its first byte to its last. Every tensor
    becomes the same view of it: size, stride, offset, dtype, conjugate and negative bits, and
    whether it requires a gradient. Everything else is copied as by `copy.deepcopy`. You may call
    `copy.deepcopy` inside and outside of this function: with `memo`, it finds objects and
    storages that were copied before.

    Parameters
    ----------
    module : torch.nn.Module or mapping
        The module to copy, or a mapping of any depth: a state dict, a checkpoint. The copy is on
        the same devices. The module's own ``__deepcopy__`` is not called, so it may call this
        function. (Only a ``__deepcopy__`` that is part of torch is called: graphs, TorchScript.)
        The methods of the reduce protocol (``__getstate__``, ``__setstate__``) are called.
    memo : dict, optional
        The memo of an outer `copy.deepcopy`.
    pack : bool, optional
        Leave out gaps: make one buffer for each set of tensors whose bounds overlap, instead of
        one for the whole storage. Tensors in different buffers no longer share a storage.
    detach : bool, optional
        Copy tensors that have a history, but not the history, instead of raising an error.
    hooks : bool, optional
        Copy the hooks of tensors, too. A bound method of the module is then bound to the copy.
        Hooks of modules are always copied.

    Raises
    ------
    TypeError
        If `module` is neither a module nor a mapping, or `memo` is not a dictionary.
    NonLeafError
        If a tensor has a history and `detach` is not set. The error names its path.

    Warns
    -----
    AliasWarning
        If memory is also held outside of the module (by another tensor, a graph). The copy does
        not share that memory. With `memo` there is no warning, because the outer copy may copy
        the other holders, too.

    Notes
    -----
    An object with its own ``__deepcopy__`` copies itself. Tensors in it still share memory with
    tensors of the module if they can be reached through attributes and items. NumPy copies NumPy
    arrays; their copies share no memory with tensors. Tensors of unknown layout (opaque tensors,
    wrapper subclasses without ``__tensor_flatten__``) are copied one by one by their own
    ``__deepcopy__``.

    Examples
    --------
    >>> from memmap import overlaps
    >>> module = torch.nn.Module()
    >>> flat = torch.zeros(10)
    >>> module.a, module.b = torch.nn.Parameter(flat[:6]), torch.nn.Parameter(flat[4:])
    >>> del flat  # otherwise there is an AliasWarning: the copy does not share memory with flat
    >>> twin = memory_aware_deepcopy(module)
    >>> overlaps(twin.a, twin.b), overlaps(twin.a, module.a)
    (True, False)
    """
    check_flags("memory_aware_deepcopy", detach=detach, hooks=hooks)
    check_module_type("memory_aware_deepcopy", module)
    if memo is not None and not isinstance(memo, dict):
        raise TypeError(
            f"memory_aware_deepcopy: memo must be the dict of a deep copy, got {memo!r}"
        )
    is_outermost = memo is None
    memo = {} if memo is None else memo
    copied: M | None = memo.get(id(module))
    if copied is not None:
        return copied
    storages = CopiedStorages.of(memo)
    if id(module) in storages.reached:
        return reconstruct(module, memo)
    reached = traverse(module)
    tensors, cloned = reached.tensors, set[int]()
    if not is_outermost:
        cloned = _cloned_by_torch(tensors, memo, storages)
        tensors = [
            item for item in tensors if id(item.tensor) not in memo or id(item.tensor) in cloned
        ]
    unshared, others = split_unshared(tensors) if storages.is_empty() else ([], tensors)
    plan = copy_plan(others, detach)
    if is_outermost:
        warn_of_copy(plan, unshared)
    # Objects that were met only for a moment stay alive, so that no other one gets their ids.
    memo.setdefault(id(memo), []).append(reached)
    # Clones come first: parts of sparse tensors may be views of them.
    sources = [item.tensor for item in unshared]
    memo |= storages.clone([source for source in sources if id(source) not in cloned])
    plain: dict[int, torch.Tensor] = {}
    for group in plan.groups:
        plain |= storages.copy_group(group, pack)
    sources += put_copies(plan, plain, memo, storages.counters, cloned=cloned)
    storages.made |= {id(source): memo[id(source)] for source in sources}
    storages.reached |= reached.seen

    def complete() -> None:
        for source in sources:
            copy_attachments(source, memo[id(source)], memo, hooks)
        for item in plan.unknown if is_outermost else []:
            try:
                copy.deepcopy(item.tensor, memo)
            except Exception as error:
                error.add_note(f"memory_aware_deepcopy: {path_text(item.path)} copies itself")
                raise

    made = reconstruct(module, memo, complete)
    for _, part in reached.modules:
        if isinstance(part, torch.jit.ScriptModule) and id(part) in memo:
            _cut_off(part, memo[id(part)])
    return made


def _cut_off(source: torch.nn.Module, made: torch.nn.Module) -> None:
    """Make parameters of a scripted copy leaves: torch computes them from those of the source."""
    for old, new in zip(source.parameters(), made.parameters(), strict=True):
        new.detach_().requires_grad_(old.requires_grad)


def put_copies(
    plan: CopyPlan,
    plain: dict[int, torch.Tensor],
    memo: dict[int, Any],
    counters: Counters,
    device: torch.device | None = None,
    cloned: Container[int] = (),
) -> list[torch.Tensor]:
    """Put a copy of every tensor of a plan into a memo; return the sources.

    The copies are made from the copies of the pieces in `plain`; their attributes and gradients
    are not copied yet. Tensors of unknown layout are sent to the device; without a device, they
    copy themselves. The memo already holds the copies of the `cloned` tensors (ids of sources);
    these only get new memory.
    """
    with torch.no_grad():
        counters.share([piece.tensor for piece in plan.pieces], plain)
        for item in plan.unknown if device else []:
            plain[id(item.tensor)] = sent_by_class(item, item.tensor.detach(), device, copy=True)
        plan.assemble(
            plain,
            lambda part: plain[id(part)] if id(part) in plain else copy.deepcopy(part, memo),
        )
    sources = [item.tensor for item in plan.tensors if id(item.tensor) in plain]
    for source in sources:
        made = with_class_of(plain[id(source)], source)
        if id(source) in cloned:
            swap_memory(memo[id(source)], made)
        else:
            memo[id(source)] = made
    return sources


def _cloned_by_torch(
    tensors: list[FoundTensor], memo: dict[int, Any], storages: CopiedStorages
) -> set[int]:
    """Parameters that an outer copy met before, and that torch has cloned out of their storage.

    Other entries of the memo stay as they are, because somebody put them there on purpose.
    """
    clones = {
        id(item.tensor)
        for item in tensors
        if id(item.tensor) in memo
        and id(item.tensor) not in storages.made
        and type(item.tensor) is torch.nn.Parameter
        and item.tensor.layout is torch.strided
        and not item.tensor.is_nested
    }
    # Here `copy.deepcopy` keeps the objects that it copied, as long as the memo lives.
    return clones & {id(kept) for kept in memo.get(id(memo), ())} if clones else clones


def copy_attachments(
    source: torch.Tensor, made: Any, memo: dict[int, Any], hooks: bool = False
) -> None:
    """Copy gradient, attributes and, if asked for, hooks of a tensor to its copy."""
    if source.is_leaf and source.grad is not None:
        give_gradient(made, copy.deepcopy(source.grad, memo))
    # The copy already has the attributes of fake tensors and the parts of wrapper subclasses.
    attributes = attributes_of(made)
    for name, value in attributes_of(source).items():
        if name not in attributes and not name.startswith(_CACHES):
            object.__setattr__(made, name, copy.deepcopy(value, memo))
    if hooks:
        for hook in (source._backward_hooks or {}).values():
            made.register_hook(copy.deepcopy(hook, memo))
        for hook in (getattr(source, "_post_accumulate_grad_hooks", None) or {}).values():
            made.register_post_accumulate_grad_hook(copy.deepcopy(hook, memo))

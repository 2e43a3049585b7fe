"""Giving tensors new memory while they stay the objects that they are: all of them or none."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._errors import MoveError
from ._reach import Found, path_text
from ._rebuild import dressed, slots_of


def commit(found: Sequence[Found], plain: Mapping[int, torch.Tensor]) -> None:
    """Give tensors new memory in place.

    Parameters
    ----------
    found : sequence of Found
        Tensors, gradients included.
    plain : mapping of int to torch.Tensor
        By the id of a tensor: what it is to be from now on. Those without an entry stay.

    Raises
    ------
    MoveError
        If a tensor that has to be exchanged as a whole is referred to by something that would
        keep the old one (a weak reference, a graph).
    Exception
        Whatever torch raises. In any case, no tensor has changed.
    """
    owners = {
        id(item.tensor.grad): item.tensor
        for item in found
        if item.tensor.is_leaf and item.tensor.grad is not None
    }
    changes = _Changes()
    pointed, exchanged, gradients = [], [], []
    for item in found:
        new = plain.get(id(item.tensor))
        if new is None:
            continue
        if _fits(item.tensor, new):
            pointed.append((item.tensor, new))
        elif id(item.tensor) in owners:
            gradients.append((owners[id(item.tensor)], new))
        else:
            _check_exchange(item)
            exchanged.append((item.tensor, new))
    try:
        with torch.no_grad():
            for tensor, new in pointed:
                changes.point(tensor, new)
            for tensor, new in exchanged:
                changes.exchange(tensor, new)
            for owner, new in gradients:
                changes.set_gradient(owner, new)
    except BaseException:
        changes.undo()
        raise


def _fits(tensor: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether a tensor can be pointed to other memory; else the object must be exchanged."""
    # A differentiable view would go on holding its base, and with it the old storage. Compressed
    # sparse tensors would keep their old values, though torch calls them compatible.
    return (
        tensor._base is None
        and tensor.layout in (torch.strided, torch.sparse_coo)
        and not is_traceable_wrapper_subclass(tensor)
        and torch._has_compatible_shallow_copy_type(tensor, new)
    )


def _check_exchange(item: Found) -> None:
    n_weak = len(weakref.getweakrefs(item.tensor))
    n_strong: int = item.tensor._use_count()  # type: ignore[attr-defined]  # not in the stubs
    # One strong reference is that of the Python object, another may be that of a gradient node.
    if n_weak or n_strong > 1 + item.tensor.is_leaf:
        raise MoveError(
            f"{path_text(item.path)}: a tensor that is exchanged must not be referred to by weak "
            f"references or graphs, got {n_weak} weak reference(s) and {n_strong} inside of torch"
        )


class _Changes:
    """Changes of tensors in place, each with the step that takes it back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def undo(self) -> None:
        with torch.no_grad():
            while self._steps:
                self._steps.pop()()

    def point(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Point a tensor to other memory."""
        old = tensor.data
        tensor.data = new
        self._steps.append(lambda: setattr(tensor, "data", old))

    def exchange(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Exchange what is behind a tensor object; attributes, hooks and gradient stay with it."""
        other = dressed(new, tensor)
        other.__dict__.update(tensor.__dict__)
        for name in slots_of(tensor):
            setattr(other, name, getattr(tensor, name))
        gradient = tensor.grad if tensor.is_leaf else None
        _swap(tensor, other)
        self._steps.append(lambda: _swap(tensor, other))
        if gradient is not None and gradient.device == tensor.device:
            tensor.grad = gradient

    def set_gradient(self, owner: torch.Tensor, new: torch.Tensor) -> None:
        """Give a tensor another gradient."""
        old = owner.grad
        owner.grad = new
        self._steps.append(lambda: setattr(owner, "grad", old))


def _swap(tensor: torch.Tensor, other: torch.Tensor) -> None:
    torch.utils.swap_tensors(tensor, other)  # type: ignore[no-untyped-call]  # of torch
    # Hooks are listed in the object, but called by what is behind it.
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(tensor, name, None)
        if hooks is not None:
            setattr(tensor, name, hooks)

"""Giving tensors new memory while they stay the objects that they are: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._errors import MoveError
from ._holders import known_uses, n_uses_inside
from ._reach import Found, path_text
from ._rebuild import dressed


def commit(found: Sequence[Found], plain: Mapping[int, torch.Tensor]) -> Changes:
    """Give tensors new memory in place.

    Parameters
    ----------
    found : sequence of Found
        Tensors, gradients included.
    plain : mapping of int to torch.Tensor
        By the id of a tensor: what it is to be from now on. Those without an entry stay.

    Returns
    -------
    Changes
        What was done, to take it back.

    Raises
    ------
    MoveError
        If a tensor that has to be exchanged as a whole, and asks for a gradient, is used by a
        graph.
    Exception
        Whatever torch raises. In any case, no tensor has changed.
    """
    owners = {
        id(item.tensor.grad): item.tensor
        for item in found
        if item.tensor.is_leaf and item.tensor.grad is not None
    }
    changes = Changes()
    pointed, exchanged, gradients = [], [], []
    uses = known_uses([item.tensor for item in found])
    for item in found:
        tensor, new = item.tensor, plain.get(id(item.tensor))
        if new is None:
            continue
        n_known = uses[tensor._cdata]
        if _can_be_pointed(tensor, new, n_known):
            pointed.append((tensor, new))
        elif id(tensor) in owners:
            gradients.append((owners[id(tensor)], new))
        else:
            _check_exchange(item, n_known)
            exchanged.append((tensor, new))
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
    return changes


def _can_be_pointed(tensor: torch.Tensor, new: torch.Tensor, n_known: int) -> bool:
    """Whether a tensor can be pointed to other memory; else the object must be exchanged."""
    # A differentiable view would go on holding its base, and with it the old storage. Compressed
    # sparse tensors would keep their old values, though torch calls them compatible. What DLPack
    # or a graph has from a buffer is the old memory: they must not find the new one there. Where
    # fake tensors pretend to be does not follow their memory.
    return (
        tensor._base is None
        and tensor.layout in (torch.strided, torch.sparse_coo)
        and not isinstance(tensor, FakeTensor)
        and not is_traceable_wrapper_subclass(tensor)
        and torch._has_compatible_shallow_copy_type(tensor, new)
        and (tensor.requires_grad or n_uses_inside(tensor) <= n_known)
    )


def _check_exchange(item: Found, n_known: int) -> None:
    """Check that no graph is left with a tensor whose gradient nobody would ever see."""
    tensor = item.tensor
    if not tensor.requires_grad or n_uses_inside(tensor) <= n_known:
        return  # whoever has the old one goes on with it
    # The node that accumulates the gradient may be one use: it is made here, if there was none.
    node = get_gradient_edge(tensor).node
    number = n_uses_inside(tensor) - n_known - 1
    del node
    if number > 0:
        raise MoveError(
            f"{path_text(item.path)}: a parameter that is moved to another kind of device must "
            f"not be used by a graph, got one that is used {number} time(s)"
        )


class Changes:
    """Changes of tensors in place, each with the step that takes it back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []
        self.has_new_gradients = False
        """Whether there is a gradient that is another object than before."""

    def undo(self) -> None:
        """Take back all changes, the last one first."""
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
        gradient = tensor.grad if tensor.is_leaf else None
        if tensor.requires_grad and n_uses_inside(tensor):
            node = get_gradient_edge(tensor).node
            handle = node.register_prehook(_refuse)
            self._steps.append(handle.remove)
            del node
        before = tensor.__dict__.copy()
        _swap(tensor, other)
        # The parts of wrapper subclasses, and what a fake tensor pretends to be, are attributes.
        tensor.__dict__.update(other.__dict__)
        self._steps.append(lambda: _swap_back(tensor, other, before))
        if gradient is not None and gradient.device == tensor.device:
            tensor.grad = gradient

    def set_gradient(self, owner: torch.Tensor, new: torch.Tensor) -> None:
        """Give a tensor another gradient."""
        old = owner.grad
        owner.grad = new
        self.has_new_gradients = True
        self._steps.append(lambda: setattr(owner, "grad", old))


def _refuse(gradients: Sequence[torch.Tensor]) -> NoReturn:
    raise RuntimeError(
        "backward: a graph must be run before the module whose parameters it uses is moved to "
        "another kind of device, got one that is older than the move"
    )


def _swap(tensor: torch.Tensor, other: torch.Tensor) -> None:
    # torch.utils.swap_tensors exchanges attributes as well, and refuses bases of known views.
    torch._C._swap_tensor_impl(tensor, other)
    # Hooks are listed in the object, but called by what is behind it.
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(tensor, name, None)
        if hooks is not None:
            setattr(tensor, name, hooks)


def _swap_back(tensor: torch.Tensor, other: torch.Tensor, attributes: dict[str, object]) -> None:
    _swap(tensor, other)
    tensor.__dict__.clear()
    tensor.__dict__.update(attributes)

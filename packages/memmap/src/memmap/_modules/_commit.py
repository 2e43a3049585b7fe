"""Give new memory to tensor objects in place: to all of them, or to none."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial

import torch
from torch.autograd.graph import Node, get_gradient_edge

from .._errors import MoveError
from .._torch import FakeTensor, fits_in_place, set_data, set_grad, set_hooks, swap_memory
from .._views._address import PLAIN_TENSORS, is_wrapper
from ._at_once import Call, at_once, attribute_set
from ._classes import slot_names
from ._counters import Counters, is_counted
from ._gradients import give_gradient, is_of_other_layout
from ._rebuild import with_class_of
from ._refcounts import known_uses, n_uses_inside
from ._traverse import FoundTensor, path_text


def commit(
    tensors: Sequence[FoundTensor], plain: dict[int, torch.Tensor], changes: Changes
) -> None:
    """Give tensors, gradients included, new memory in place.

    `plain` has the new tensor for the id of each tensor; tensors without an entry stay. The
    changes are noted in `changes`, so that the caller can undo them. If this raises, no tensor has
    changed.
    """
    pointed: list[torch.Tensor] = []
    exchanged: list[torch.Tensor] = []
    uses = known_uses([item.tensor for item in tensors])
    for item in tensors:
        tensor, new = item.tensor, plain.get(id(item.tensor))
        if new is None:
            continue
        n_known = uses[tensor._cdata]
        if _can_be_pointed(tensor, new, n_known):
            pointed.append(tensor)
        else:
            _check_exchange(item, n_known)
            exchanged.append(tensor)
    joined = {id(tensor): tensor.grad for tensor in exchanged if is_of_other_layout(tensor)}
    gradients = set(map(id, joined.values()))  # each is exchanged together with its tensor
    pointed = [tensor for tensor in pointed if id(tensor) not in gradients]
    exchanged = [tensor for tensor in exchanged if id(tensor) not in gradients]
    if exchanged:
        counters = Counters()
        for tensor in filter(is_counted, pointed):
            counters.add(tensor, tensor)  # they keep their counters
        counters.share(exchanged, plain)
    others = [item for item in tensors if id(item.tensor) not in joined]
    owners = _owners_to_join(others, set(map(id, exchanged)))
    # Setting a gradient stores the C++ tensor, not the Python object, so set it again afterwards.
    for owner, gradient in owners:
        changes.set_gradient(owner, None, gradient)
    for tensor in pointed:
        changes.point(tensor, plain[id(tensor)])
    for tensor in exchanged:
        joint = joined.get(id(tensor))
        new = None if joint is None else plain.get(id(joint), joint.detach())
        changes.exchange(tensor, plain[id(tensor)], new)
    for owner, gradient in owners:
        changes.set_gradient(owner, gradient, None)
    changes.publish()


def _owners_to_join(
    tensors: Sequence[FoundTensor], exchanged: Container[int]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tensors and their gradients if at least one of the two is exchanged as a whole."""
    owners = []
    for item in tensors:
        tensor = item.tensor
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is None or (id(tensor) not in exchanged and id(gradient) not in exchanged):
            continue
        try:
            tensor.grad = gradient  # changes nothing, but torch checks that they fit
        except (RuntimeError, TypeError) as error:
            raise MoveError(
                f"{path_text(item.path)}.grad: a gradient that moves must fit its tensor, "
                f"got {gradient.dtype} on {gradient.device} for {tensor.dtype} on {tensor.device}"
            ) from error
        owners.append((tensor, gradient))
    return owners


def _can_be_pointed(tensor: torch.Tensor, new: torch.Tensor, n_known: int) -> bool:
    """Whether a tensor can be pointed to other memory. If not, its C++ tensor is exchanged."""
    # A differentiable view would still hold its base, and with it the old storage. Compressed
    # sparse tensors would keep their old values, though torch calls them compatible. DLPack
    # exports and graphs that use a buffer must keep the old memory. The device of a fake tensor
    # does not follow its memory.
    return (
        tensor._base is None
        and tensor.layout in (torch.strided, torch.sparse_coo)
        and not isinstance(tensor, FakeTensor)
        and not is_wrapper(tensor)
        and fits_in_place(tensor, new)
        and (tensor.requires_grad or n_uses_inside(tensor) <= n_known)
    )


def _check_exchange(item: FoundTensor, n_known: int) -> None:
    """Check that no graph uses the tensor, because its gradient would be lost."""
    tensor = item.tensor
    if not tensor.requires_grad or n_uses_inside(tensor) <= n_known:
        return  # other holders keep the old tensor
    # One use may be the node that accumulates the gradient; get_gradient_edge makes it if needed.
    node = get_gradient_edge(tensor).node
    number = n_uses_inside(tensor) - n_known - 1
    del node
    if number > 0:
        raise MoveError(
            f"{path_text(item.path)}: a parameter that moves to another kind of device must not "
            f"be used by a graph, got one that is used {number} time(s) (delete what was computed "
            "with it, and move a module before DistributedDataParallel wraps it)"
        )


class Changes:
    """Changes of tensors in place, prepared one by one, and made or undone all at once.

    Everything the changes need is computed before the first change, because an interrupt may come
    between any two Python instructions. `further` has more pairs of calls: one to make, and one
    that undoes it. Undoing must be harmless if the call was not made.
    """

    def __init__(self, further: Iterable[tuple[Call, Call]] = ()) -> None:
        self._calls: list[Call] = []
        self._undo_calls: list[Callable[[], list[Call]]] = []
        self._blocks: list[_BackwardBlock] = []
        for call, back in further:
            self._add(call, back)

    def publish(self) -> None:
        """Make all changes. If one fails, undo those before it."""
        try:
            at_once(self._calls)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Undo the changes made so far, the last one first. Calling this twice is harmless."""
        at_once([call for undo_call in reversed(self._undo_calls) for call in undo_call()])
        for block in self._blocks:
            block.lift()

    def point(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Point a tensor to other memory."""
        self._add(partial(set_data, tensor, new), partial(set_data, tensor, tensor.data))

    def exchange(
        self, tensor: torch.Tensor, new: torch.Tensor, gradient: torch.Tensor | None = None
    ) -> None:
        """Exchange the C++ tensor of a tensor object; attributes and hooks stay with the object.

        If its gradient has another layout, both are exchanged. `gradient` is the new one.
        """
        other = with_class_of(new, tensor)
        if gradient is not None and tensor.grad is not None:
            give_gradient(other, gradient)
            self.exchange(tensor.grad, gradient)
        if tensor.requires_grad and n_uses_inside(tensor):
            block = _BackwardBlock(get_gradient_edge(tensor).node)
            self._blocks.append(block)
            self._add(*attribute_set(block, "is_active", True, False))
        # torch.utils.swap_tensors also exchanges attributes, and refuses bases of known views.
        # Hooks are listed in the Python object but called by the C++ tensor.
        swap: list[Call] = [partial(swap_memory, tensor, other)]
        for name, set_to in set_hooks.items():
            hooks = getattr(tensor, name, None)
            if hooks is not None:
                swap.append(partial(set_to, tensor, hooks))
        identity, attributes = tensor._cdata, tensor.__dict__
        restore: list[Call] = [attributes.clear, partial(attributes.update, attributes.copy())]
        self._calls += swap
        # The parts of wrapper subclasses, and the device of a fake tensor, are attributes.
        self._calls.append(partial(attributes.update, other.__dict__))
        for name in () if type(tensor) in PLAIN_TENSORS else slot_names(type(tensor)):
            if hasattr(other, name) and hasattr(tensor, name):
                old, new = getattr(tensor, name), getattr(other, name)
                self._add(*attribute_set(tensor, name, new, old))
        self._undo_calls.append(lambda: restore if tensor._cdata == identity else swap + restore)

    def set_gradient(
        self, owner: torch.Tensor, new: torch.Tensor | None, old: torch.Tensor | None
    ) -> None:
        """Give a tensor another gradient, or none."""
        self._add(partial(set_grad, owner, new), partial(set_grad, owner, old))

    def _add(self, call: Call, back: Call) -> None:
        self._calls.append(call)
        self._undo_calls.append(lambda: [back])


class _BackwardBlock:
    """A hook that stops a graph from running backward while it is active."""

    def __init__(self, node: Node) -> None:
        self.is_active = False
        self.lift = node.register_prehook(self).remove

    def __call__(self, gradients: Sequence[torch.Tensor]) -> None:
        if self.is_active:
            raise RuntimeError(
                "backward: a graph must run backward before its parameters move to another "
                "kind of device, got a graph that was made before the move"
            )

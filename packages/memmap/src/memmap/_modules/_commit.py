"""Giving tensors new memory while they stay the objects that they are: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import Node, get_gradient_edge
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._errors import MoveError
from ._at_once import Call, at_once, attribute_set
from ._counters import Counters, is_counted
from ._rebuild import dressed
from ._refcounts import known_uses, n_uses_inside
from ._traverse import Found, path_text

_attributes = vars(torch._C.TensorBase)
_set_data, _set_grad = _attributes["data"].__set__, _attributes["grad"].__set__
_swap = torch._C._swap_tensor_impl


def commit(found: Sequence[Found], plain: dict[int, torch.Tensor], changes: Changes) -> None:
    """Give tensors, gradients included, new memory in place.

    By the id of a tensor, `plain` has what it is to be from now on; those without an entry stay.
    What is changed is noted in `changes`, so that the caller can take it back. After a `MoveError`
    and whatever torch raises, no tensor has changed.
    """
    pointed: list[torch.Tensor] = []
    exchanged: list[torch.Tensor] = []
    uses = known_uses([item.tensor for item in found])
    for item in found:
        tensor, new = item.tensor, plain.get(id(item.tensor))
        if new is None:
            continue
        n_known = uses[tensor._cdata]
        if _can_be_pointed(tensor, new, n_known):
            pointed.append(tensor)
        else:
            _check_exchange(item, n_known)
            exchanged.append(tensor)
    if exchanged:
        counters = Counters()
        for tensor in filter(is_counted, pointed):
            counters.add(tensor, tensor)  # they keep their counters
        counters.share(exchanged, plain)
    owners = _owners_to_join(found, set(map(id, exchanged)))
    # A tensor keeps what is behind the object that is its gradient, and not the object.
    for owner, gradient in owners:
        changes.set_gradient(owner, None, gradient)
    for tensor in pointed:
        changes.point(tensor, plain[id(tensor)])
    for tensor in exchanged:
        changes.exchange(tensor, plain[id(tensor)])
    for owner, gradient in owners:
        changes.set_gradient(owner, gradient, None)
    changes.publish()


def _owners_to_join(
    found: Sequence[Found], exchanged: Container[int]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tensors and their gradients where at least one of the two is exchanged as a whole."""
    owners = []
    for item in found:
        tensor = item.tensor
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is None or (id(tensor) not in exchanged and id(gradient) not in exchanged):
            continue
        try:
            tensor.grad = gradient  # nothing changes, but torch checks that they fit
        except (RuntimeError, TypeError) as error:
            raise MoveError(
                f"{path_text(item.path)}.grad: a gradient that is moved must fit its tensor, "
                f"got {gradient.dtype} on {gradient.device} for {tensor.dtype} on {tensor.device}"
            ) from error
        owners.append((tensor, gradient))
    return owners


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
    """Changes of tensors in place, prepared one by one, and made and taken back all at once.

    What they take is computed before anything changes, since an interrupt may come between any two
    instructions of Python. What else is to be done with them is in `further`, each call with what
    takes it back, even if it was not done yet.
    """

    def __init__(self, further: Iterable[tuple[Call, Call]] = ()) -> None:
        self._calls: list[Call] = []
        self._ways_back: list[Callable[[], list[Call]]] = []
        self._refusals: list[_Refusal] = []
        for call, back in further:
            self._add(call, back)

    def publish(self) -> None:
        """Make all changes. If one of them fails, those before it are taken back."""
        try:
            at_once(self._calls)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Take back what has been changed, the last change first. To do it twice does no harm."""
        at_once([call for way_back in reversed(self._ways_back) for call in way_back()])
        for refusal in self._refusals:
            refusal.lift()

    def point(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Point a tensor to other memory."""
        self._add(partial(_set_data, tensor, new), partial(_set_data, tensor, tensor.data))

    def exchange(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Exchange what is behind a tensor object; attributes and hooks stay with it."""
        other = dressed(new, tensor)
        if tensor.requires_grad and n_uses_inside(tensor):
            refusal = _Refusal(get_gradient_edge(tensor).node)
            self._refusals.append(refusal)
            self._add(*attribute_set(refusal, "is_active", True, False))
        # torch.utils.swap_tensors exchanges attributes as well, and refuses bases of known views.
        # Hooks are listed in the object, but called by what is behind it.
        swap: list[Call] = [partial(_swap, tensor, other)]
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            hooks = getattr(tensor, name, None)
            if hooks is not None:
                swap.append(partial(_attributes[name].__set__, tensor, hooks))
        identity, attributes = tensor._cdata, tensor.__dict__
        restore: list[Call] = [attributes.clear, partial(attributes.update, attributes.copy())]
        self._calls += swap
        # The parts of wrapper subclasses, and what a fake tensor pretends to be, are attributes.
        self._calls.append(partial(attributes.update, other.__dict__))
        self._ways_back.append(lambda: restore if tensor._cdata == identity else swap + restore)

    def set_gradient(
        self, owner: torch.Tensor, new: torch.Tensor | None, old: torch.Tensor | None
    ) -> None:
        """Give a tensor another gradient, or none."""
        self._add(partial(_set_grad, owner, new), partial(_set_grad, owner, old))

    def _add(self, call: Call, back: Call) -> None:
        self._calls.append(call)
        self._ways_back.append(lambda: [back])


class _Refusal:
    """A hook that lets no graph run while it is active."""

    def __init__(self, node: Node) -> None:
        self.is_active = False
        self.lift = node.register_prehook(self).remove

    def __call__(self, gradients: Sequence[torch.Tensor]) -> None:
        if self.is_active:
            raise RuntimeError(
                "backward: a graph must be run before the module whose parameters it uses is "
                "moved to another kind of device, got one that is older than the move"
            )

"""Giving tensors new memory while they stay the objects that they are: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.hooks import RemovableHandle

from ._counters import Counters
from ._errors import MoveError
from ._holders import known_uses, n_uses_inside
from ._reach import Found, path_text
from ._rebuild import dressed


def commit(
    found: Sequence[Found], plain: Mapping[int, torch.Tensor], changes: Changes | None = None
) -> Changes:
    """Give tensors new memory in place.

    Parameters
    ----------
    found : sequence of Found
        Tensors, gradients included.
    plain : mapping of int to torch.Tensor
        By the id of a tensor: what it is to be from now on. Those without an entry stay.
    changes : Changes, optional
        Where to note what is done, if the caller holds it already: whatever interrupts the caller
        then finds there what has changed.

    Returns
    -------
    Changes
        What was done, to take it back.

    Raises
    ------
    MoveError
        If a tensor that has to be exchanged as a whole, and asks for a gradient, is used by a
        graph; or if a gradient that has to be exchanged does not fit its tensor.
    Exception
        Whatever torch raises. In any case, no tensor has changed.
    """
    changes = Changes() if changes is None else changes
    pointed, exchanged = [], []
    uses = known_uses([item.tensor for item in found])
    for item in found:
        tensor, new = item.tensor, plain.get(id(item.tensor))
        if new is None:
            continue
        n_known = uses[tensor._cdata]
        if _can_be_pointed(tensor, new, n_known):
            pointed.append((tensor, new))
        else:
            _check_exchange(item, n_known)
            exchanged.append((tensor, new))
    exchanged = _counted(exchanged, [tensor for tensor, _ in pointed])
    owners = _owners_to_join(found, {id(tensor) for tensor, _ in exchanged})
    try:
        with torch.no_grad():
            # A tensor keeps what is behind the object that is its gradient, and not the object.
            for owner, gradient in owners:
                changes.part(owner, gradient)
            for tensor, new in pointed:
                changes.point(tensor, new)
            for tensor, new in exchanged:
                changes.exchange(tensor, new)
            for owner, gradient in owners:
                changes.join(owner, gradient)
    except BaseException:
        changes.undo()
        raise
    return changes


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


def _counted(
    exchanged: list[tuple[torch.Tensor, torch.Tensor]], pointed: list[torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """New tensors, with writes counted together as in the old ones and in those that stay."""
    if not exchanged:
        return exchanged
    counters = Counters()
    counters.add(pointed, pointed)  # they keep their counters
    plain = {id(tensor): new for tensor, new in exchanged}
    counters.share([tensor for tensor, _ in exchanged], plain)
    return [(tensor, plain[id(tensor)]) for tensor, _ in exchanged]


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
    """Changes of tensors in place, each with the step that takes it back.

    An interrupt may come between any two instructions. So each step is noted before its change is
    made, and does no harm if that was not made yet, or if the step is taken twice.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def undo(self) -> None:
        """Take back all changes, the last one first, whatever interrupts it.

        The caller raises in any case: what interrupts is heard, if not by its own name.
        """
        with torch.no_grad():
            while self._steps:
                with suppress(KeyboardInterrupt):
                    self._steps[-1]()
                    self._steps.pop()

    def point(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Point a tensor to other memory."""
        old = tensor.data
        self._steps.append(lambda: setattr(tensor, "data", old))
        tensor.data = new

    def exchange(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Exchange what is behind a tensor object; attributes and hooks stay with it."""
        other = dressed(new, tensor)
        if tensor.requires_grad and n_uses_inside(tensor):
            node = get_gradient_edge(tensor).node
            refusal = _Refusal()
            self._steps.append(refusal.lift)
            refusal.handle = node.register_prehook(refusal)
            del node
        identity, before = tensor._cdata, tensor.__dict__.copy()
        self._steps.append(lambda: _swap_back(tensor, other, identity, before))
        _swap(tensor, other)
        # The parts of wrapper subclasses, and what a fake tensor pretends to be, are attributes.
        tensor.__dict__.update(other.__dict__)

    def part(self, owner: torch.Tensor, gradient: torch.Tensor) -> None:
        """Take the gradient from a tensor."""
        self._steps.append(lambda: setattr(owner, "grad", gradient))
        owner.grad = None

    def join(self, owner: torch.Tensor, gradient: torch.Tensor) -> None:
        """Give a tensor without gradient one."""
        self._steps.append(lambda: setattr(owner, "grad", None))
        owner.grad = gradient


class _Refusal:
    """A hook that lets no graph run, until it is lifted."""

    def __init__(self) -> None:
        self.handle: RemovableHandle | None = None
        self._is_lifted = False

    def lift(self) -> None:
        self._is_lifted = True
        if self.handle is not None:
            self.handle.remove()

    def __call__(self, gradients: Sequence[torch.Tensor]) -> None:
        if not self._is_lifted:
            raise RuntimeError(
                "backward: a graph must be run before the module whose parameters it uses is "
                "moved to another kind of device, got one that is older than the move"
            )


def _swap(tensor: torch.Tensor, other: torch.Tensor) -> None:
    # torch.utils.swap_tensors exchanges attributes as well, and refuses bases of known views.
    torch._C._swap_tensor_impl(tensor, other)
    # Hooks are listed in the object, but called by what is behind it.
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(tensor, name, None)
        if hooks is not None:
            setattr(tensor, name, hooks)


def _swap_back(
    tensor: torch.Tensor, other: torch.Tensor, identity: int, attributes: dict[str, object]
) -> None:
    if tensor._cdata != identity:
        _swap(tensor, other)
    tensor.__dict__.clear()
    tensor.__dict__.update(attributes)

"""Who else holds a storage: the reference counts of torch, less the holders that are known."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

_use_count = torch._C._storage_Use_Count
_INTEGERS = {1: torch.uint8, 4: torch.int32}  # what quantized numbers are kept as


def outside_references(
    known: Iterable[torch.Tensor], inner: Iterable[torch.Tensor] = ()
) -> dict[int, int]:
    """How many tensors, graphs and exports hold storages of known tensors, by their identities.

    For every further tensor that may hold such a storage, `inner` has some tensor there. A view
    keeps the tensor that it is a view of; if numbers are read differently through it (conjugated,
    as reals), it keeps the tensors between the two as well. What is kept in this way and held by
    nobody else is not counted. Tensors between are told from others by their number only: if
    somebody else holds one of them, it is overlooked.
    """
    tensors = {tensor._cdata: tensor for tensor in known}
    held = [tensor.untyped_storage() for tensor in tensors.values()]
    storages = {storage._cdata: storage for storage in held}
    n_known = Counter(tensor.untyped_storage()._cdata for tensor in [*tensors.values(), *inner])
    uses = _uses_of_bases(tensors.values())
    is_used: set[int] = set()
    has_between: set[int] = set()
    for identity, base in uses.items():
        storage = base.view.untyped_storage()._cdata
        n_known[storage] += base.n_between
        if base.n_between:
            has_between.add(storage)
        if identity not in tensors:
            n_known[storage] += not base.is_held()
            if n_uses_inside(base.view._base) > base.number:
                is_used.add(storage)
    # What holds a tensor, and not its storage, is seen by the uses of the tensor. Graphs may use
    # what requires gradients: a move leaves them related, as it does in torch.
    n_uses = _with_gradients(uses, tensors.values())
    for identity, tensor in tensors.items():
        if not tensor.requires_grad and n_uses_inside(tensor) > n_uses[identity]:
            is_used.add(tensor.untyped_storage()._cdata)
    # There, views use tensors that are not their bases; fake ones use their bases as they like.
    is_used -= has_between
    is_used -= {storage for storage in is_used if storages[storage].device.type == "meta"}
    # One reference is that of the Python object.
    n_others = {
        identity: max(_use_count(identity) - 1 - n_known[identity], int(identity in is_used))
        for identity in storages
    }
    return {identity: number for identity, number in n_others.items() if number > 0}


def held_bases(known: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors that strided tensors know to be views of, and that are held in Python besides."""
    tensors = {tensor._cdata: tensor for tensor in known}
    uses = _uses_of_bases(tensors.values())
    held = [use for identity, use in uses.items() if identity not in tensors and use.is_held()]
    return [use.view._base for use in held if use.view._base is not None]


def known_uses(tensors: Sequence[torch.Tensor]) -> Counter[int]:
    """How often tensors are used by one another, by ``_cdata``: as bases, as gradients."""
    return _with_gradients(_uses_of_bases(tensors), tensors)


def n_uses_inside(tensor: Any) -> int:
    """References to a tensor from inside of torch: views of it, graphs, exports by DLPack."""
    number: int = tensor._use_count()
    return number - 1  # that of the Python object


class _Uses(NamedTuple):
    """What some views of one tensor keep: references to it, and tensors between."""

    view: torch.Tensor
    number: int
    n_between: int

    def is_held(self) -> bool:
        """Whether the tensor that they are views of is held in Python."""
        return sys.getrefcount(self.view._base) > _references_to_an_unused_base()


def _uses_of_bases(tensors: Iterable[torch.Tensor]) -> dict[int, _Uses]:
    """How some tensors use those that they are views of, by the identity of the latter."""
    uses: dict[int, _Uses] = {}
    for view in tensors:
        base = view._base
        if base is None or view.layout is not torch.strided or view.is_nested:
            continue
        number, n_between = _uses_of_base(view, base)
        before = uses.get(base._cdata, _Uses(view, 0, 0))
        uses[base._cdata] = _Uses(view, before.number + number, before.n_between + n_between)
    return uses


def _with_gradients(uses: dict[int, _Uses], tensors: Iterable[torch.Tensor]) -> Counter[int]:
    numbers = Counter({identity: use.number for identity, use in uses.items()})
    numbers.update(
        tensor.grad._cdata for tensor in tensors if tensor.is_leaf and tensor.grad is not None
    )
    return numbers


def _uses_of_base(view: torch.Tensor, base: torch.Tensor) -> tuple[int, int]:
    """References of a view to its base, and the number of tensors between that it keeps."""
    # The same view of another tensor, which nobody else has, refers to that one as often.
    n_elements = -(-base.untyped_storage().nbytes() // base.itemsize)
    dtype = _INTEGERS[base.itemsize] if base.is_quantized else base.dtype
    twin = torch.empty(n_elements, dtype=dtype, device="meta")
    storage = twin.untyped_storage()
    twin.set_(storage, base.storage_offset(), base.shape, base.stride())
    if base.is_conj():
        torch._C._set_conj(twin, True)
    if base.is_neg():
        torch._C._set_neg(twin, True)
    with torch.no_grad():
        again = view._view_func_unsafe(twin)
    # The storage is held by its Python object, the twin and the view, too.
    n_between = _use_count(storage._cdata) - 3
    number = n_uses_inside(twin)
    del again
    return number, n_between


@cache
def _references_to_an_unused_base() -> int:
    view = torch.zeros(1)[:]
    return sys.getrefcount(view._base)

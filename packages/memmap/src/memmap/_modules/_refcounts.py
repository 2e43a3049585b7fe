"""Other holders of a storage: the reference counts of torch, less the known holders."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cache
from threading import RLock
from typing import Any, NamedTuple

import torch

from .._torch import n_holders

one_at_a_time = RLock()
"""Held while a thread counts the holders of storages, or holds them itself for a moment."""

_INTEGERS = {1: torch.uint8, 4: torch.int32}  # the types that store quantized numbers


def outside_references(
    tensors: Iterable[torch.Tensor],
    inner: Iterable[torch.Tensor] = (),
    viewed: Container[int] = (),
    owners: Iterable[torch.Tensor] = (),
) -> dict[int, int]:
    """Number of unknown tensors, graphs and exports that hold a storage, by its identity.

    `tensors` are the known tensors. `inner` has one more tensor for each further known holder of a
    storage. `viewed` has the ids of tensors that a wrapper is a view of: how often it uses them is
    not known. Gradients are known through the known tensors and through `owners`.

    A view keeps its base; a view that reads the numbers differently (conjugated, as reals) also
    keeps the tensors between the two. These are not counted if nobody else holds them. Only their
    number is known, so another holder of a tensor in between is overlooked.
    """
    by_identity = {tensor._cdata: tensor for tensor in tensors}
    held = [tensor.untyped_storage() for tensor in by_identity.values()]
    storages = {storage._cdata: storage for storage in held}
    n_known = Counter(tensor.untyped_storage()._cdata for tensor in [*by_identity.values(), *inner])
    uses = _uses_of_bases(by_identity.values())
    is_used: set[int] = set()
    has_between: set[int] = set()
    for identity, base in uses.items():
        storage = base.view.untyped_storage()._cdata
        n_known[storage] += base.n_between
        if base.n_between:
            has_between.add(storage)
        if identity not in by_identity:
            n_known[storage] += not base.is_held()
            if n_uses_inside(base.view._base) > base.number:
                is_used.add(storage)
    # Graphs and exports may use a tensor without holding its storage: count the uses. Graphs may
    # use tensors that require gradients: a move keeps these related, as in torch.
    with_owners = by_identity | {owner._cdata: owner for owner in owners}
    n_uses = _with_gradients(uses, with_owners.values())
    for identity, tensor in by_identity.items():
        if tensor.requires_grad or id(tensor) in viewed:
            continue
        if n_uses_inside(tensor) > n_uses[identity]:
            is_used.add(tensor.untyped_storage()._cdata)
    # With tensors in between, the counts differ; fake tensors use their bases differently.
    is_used -= has_between
    is_used -= {storage for storage in is_used if storages[storage].device.type == "meta"}
    # One reference is the Python object's.
    n_others = {
        identity: max(n_holders(identity) - 1 - n_known[identity], int(identity in is_used))
        for identity in storages
    }
    return {identity: number for identity, number in n_others.items() if number > 0}


def held_bases(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Bases of strided views that are also held elsewhere in Python."""
    by_identity = {tensor._cdata: tensor for tensor in tensors}
    uses = _uses_of_bases(by_identity.values())
    held = [use for identity, use in uses.items() if identity not in by_identity and use.is_held()]
    return [use.view._base for use in held if use.view._base is not None]


def known_uses(tensors: Sequence[torch.Tensor]) -> Counter[int]:
    """How often tensors are used by one another, as bases or gradients, by ``_cdata``."""
    return _with_gradients(_uses_of_bases(tensors), tensors)


def n_uses_inside(tensor: Any) -> int:
    """References to a tensor inside of torch: views of it, graphs, exports by DLPack."""
    number: int = tensor._use_count()
    return number - 1  # one is the Python object's


class _Uses(NamedTuple):
    """References that views of one tensor keep to it, and the number of tensors in between."""

    view: torch.Tensor
    number: int
    n_between: int

    def is_held(self) -> bool:
        """Whether Python code holds the base of the views."""
        return sys.getrefcount(self.view._base) > _references_to_an_unused_base()


def _uses_of_bases(tensors: Iterable[torch.Tensor]) -> dict[int, _Uses]:
    """How tensors use their bases, by the identity of the base."""
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
    """References of a view to its base, and the number of tensors in between that it keeps."""
    # Make the same view of another tensor with the memory of the base, and count its references.
    # On another device, views through other classes (nested tensors) would refuse it.
    twin, storage = base.data, base.untyped_storage()
    if base.is_quantized:  # torch refuses some views of quantized numbers
        twin = torch.empty(0, dtype=_INTEGERS[base.itemsize], device=base.device)
        twin.set_(storage, base.storage_offset(), base.shape, base.stride())
    n_before = n_holders(storage._cdata)
    with torch.no_grad():
        again = view._view_func_unsafe(twin)
    n_between = n_holders(storage._cdata) - n_before - 1
    number = n_uses_inside(twin)
    del again
    return number, n_between


@cache
def _references_to_an_unused_base() -> int:
    view = torch.zeros(1)[:]
    return sys.getrefcount(view._base)

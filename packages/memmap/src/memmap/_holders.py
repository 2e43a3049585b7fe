"""Who else holds a storage: the reference count of torch, less those that are known."""

from __future__ import annotations

from collections.abc import Iterable

import torch

_use_count = torch._C._storage_Use_Count


def n_outside_holders(tensors: Iterable[torch.Tensor], known: Iterable[torch.Tensor] = ()) -> int:
    """Number of tensors, other than the given ones, that hold the storages of some tensors.

    A view keeps its base; a base that only its views keep is none of the others. A view through
    which numbers are read differently (conjugated, as reals) may keep the view it was made from,
    too: that one is not counted either, whether it is there or not.

    Parameters
    ----------
    tensors : iterable of torch.Tensor
        Strided tensors, whose storages are asked about.
    known : iterable of torch.Tensor
        Further strided tensors that do not count.

    Returns
    -------
    int
        Tensors, saved tensors of graphs and the like. What lent its memory to torch (a NumPy
        array, say) is not counted.

    Examples
    --------
    >>> x = torch.zeros(4)
    >>> views = [x[:2], x[2:]]
    >>> n_outside_holders(views), n_outside_holders([x]), n_outside_holders([x], views)
    (0, 2, 0)
    """
    asked: dict[int, torch.UntypedStorage] = {}
    holders: dict[int, set[int]] = {}
    n_hidden = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        asked[storage._cdata] = storage
        n_hidden += _note(tensor, storage._cdata, holders)
    for tensor in known:
        identity = tensor.untyped_storage()._cdata
        if identity in asked:
            n_hidden += _note(tensor, identity, holders)
    # One reference is that of the Python object.
    n_others = sum(_use_count(identity) - 1 - len(holders[identity]) for identity in asked)
    return max(n_others - n_hidden, 0)


def _note(tensor: torch.Tensor, identity: int, holders: dict[int, set[int]]) -> bool:
    """Note who holds a storage; return whether there may be a hidden holder behind the tensor."""
    noted = holders.setdefault(identity, set())
    noted.add(tensor._cdata)
    base = tensor._base
    if base is None:
        return False
    noted.add(base._cdata)
    return (
        tensor.dtype != base.dtype
        or tensor.is_conj() != base.is_conj()
        or tensor.is_neg() != base.is_neg()
    )

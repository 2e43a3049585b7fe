"""Tensors that share memory with nothing: most of them, and quickly copied."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

import numpy as np
import torch

from .._modules._traverse import Found
from .._views._address import PLAIN_TENSORS, SUB_BYTE_DTYPES
from .._views._arrays import Booleans, Integers
from ._allocate import HUGE_FROM

_use_count = torch._C._storage_Use_Count
_data_address = torch._C._data_address  # type: ignore[attr-defined]  # not in the stubs
_ITEMSIZES = {
    dtype: dtype.itemsize
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
    and dtype not in SUB_BYTE_DTYPES
    and not str(dtype).startswith("torch.q")
}
_COMPLEX = frozenset(dtype for dtype in _ITEMSIZES if dtype.is_complex)


class UnsharedTensors(NamedTuple):
    """Tensors that fill a storage of their own.

    Attributes
    ----------
    items : list of Found
        Plain leaves, contiguous, whose storage holds nothing else that was found, and is not
        large: a clone is all that a copy of them can be.
    storages : list of int
        The identity (``_cdata``) of the storage of each.
    """

    items: list[Found]
    storages: list[int]

    def without(self, known: Container[int]) -> UnsharedTensors:
        """All but the tensors with some ids."""
        kept = [
            (item, storage)
            for item, storage in zip(self.items, self.storages, strict=True)
            if id(item.tensor) not in known
        ]
        return UnsharedTensors([item for item, _ in kept], [storage for _, storage in kept])

    def suspects(self) -> list[Found]:
        """Those whose storage may be held by another tensor."""
        # One reference is that of the tensor, another that of the Python object of the storage.
        return [
            item
            for item, storage in zip(self.items, self.storages, strict=True)
            if _use_count(storage) != 2
        ]


def split_unshared(found: Iterable[Found]) -> tuple[UnsharedTensors, list[Found]]:
    """Tell tensors that fill a storage of their own from those that need a closer look.

    Parameters
    ----------
    found : iterable of Found
        Each tensor once.

    Returns
    -------
    unshared : UnsharedTensors
        Those that fill a storage.
    others : list of Found
        All the others.

    Examples
    --------
    >>> x, y = torch.zeros(3), torch.zeros(4)
    >>> unshared, others = split_unshared(Found(t, None, True) for t in (x, y[:2], y[2:]))
    >>> unshared.items[0].tensor is x, len(others)
    (True, 2)
    """
    strided, others, memory, starts = _with_memory(list(found))
    sizes = [storage.nbytes() for storage in memory]
    items: list[Found] = []
    storages: list[int] = []
    places: list[int] = []
    for place, item in enumerate(strided):
        tensor, nbytes, dtype = item.tensor, sizes[place], item.tensor.dtype
        if (
            starts[place]
            and nbytes < HUGE_FROM
            and tensor.numel() * _ITEMSIZES.get(dtype, 0) == nbytes
            and tensor.is_contiguous()
            and type(tensor) in PLAIN_TENSORS
            and item.owned
            and tensor.is_leaf
            and not tensor.is_neg()
            and not (dtype in _COMPLEX and tensor.is_conj())
        ):
            items.append(item)
            storages.append(memory[place]._cdata)
            places.append(place)
        else:
            others.append(item)
    start = np.array(starts, np.int64)
    apart = _apart(start, start + np.array(sizes, np.int64))[places]
    if not apart.all():
        others += [item for item, alone in zip(items, apart, strict=True) if not alone]
        items = [item for item, alone in zip(items, apart, strict=True) if alone]
        storages = [storage for storage, alone in zip(storages, apart, strict=True) if alone]
    return UnsharedTensors(items, storages), others


def _with_memory(
    found: list[Found],
) -> tuple[list[Found], list[Found], list[torch.UntypedStorage], list[int]]:
    """Tensors with strided memory and those without; storages and addresses of the former."""
    tensors = [item.tensor for item in found]
    try:
        memory = list(map(torch.Tensor.untyped_storage, tensors))
        return found, [], memory, list(map(_data_address, tensors))
    except (RuntimeError, ValueError):  # no strided memory, or none yet
        if len(found) == 1:
            return [], found, [], []
    half = len(found) // 2
    first, second = _with_memory(found[:half]), _with_memory(found[half:])
    return (first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3])


def _apart(start: Integers, stop: Integers) -> Booleans:
    """Which intervals meet no other. (Addresses of two devices may: it does no harm.)"""
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    apart = np.ones(len(order), np.bool_)
    meets = start[1:] < np.maximum.accumulate(stop)[:-1]
    apart[order[1:][meets]] = False
    apart[order[:-1][start[1:] < stop[:-1]]] = False
    return apart

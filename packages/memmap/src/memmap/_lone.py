"""Tensors that share memory with nothing: most of them, and quickly copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from ._allocate import HUGE_FROM
from ._reach import Found
from ._view import SUB_BYTE_DTYPES

Booleans: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_data_address = torch._C._data_address  # type: ignore[attr-defined]  # not in the stubs
_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_ITEMSIZES = {
    dtype: dtype.itemsize
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
    and dtype not in SUB_BYTE_DTYPES
    and not str(dtype).startswith("torch.q")
}


class Lone(NamedTuple):
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


def split_lone(found: Iterable[Found]) -> tuple[Lone, list[Found]]:
    """Tell tensors that fill a storage of their own from those that need a closer look.

    Parameters
    ----------
    found : iterable of Found
        Each tensor once.

    Returns
    -------
    lone : Lone
        Those that fill a storage.
    others : list of Found
        All the others.

    Examples
    --------
    >>> x, y = torch.zeros(3), torch.zeros(4)
    >>> lone, others = split_lone(Found(t, None, True, True) for t in (x, y[:2], y[2:]))
    >>> lone.items[0].tensor is x, len(others)
    (True, 2)
    """
    starts: list[int] = []
    stops: list[int] = []
    items: list[Found] = []
    storages: list[int] = []
    places: list[int] = []
    others: list[Found] = []
    for item in found:
        tensor = item.tensor
        try:
            storage = tensor.untyped_storage()
            start = _data_address(tensor)
        except (RuntimeError, ValueError):  # no strided memory, or none yet
            others.append(item)
            continue
        nbytes = storage.nbytes()
        starts.append(start)
        stops.append(start + nbytes)
        if (
            start
            and nbytes < HUGE_FROM
            and tensor.numel() * _ITEMSIZES.get(tensor.dtype, 0) == nbytes
            and tensor.is_contiguous()
            and type(tensor) in _PLAIN_TENSORS
            and item.owned
            and tensor.is_leaf
            and not (tensor.is_neg() or tensor.is_conj())
        ):
            items.append(item)
            storages.append(storage._cdata)
            places.append(len(starts) - 1)
        else:
            others.append(item)
    apart = _apart(starts, stops)[places]
    if not apart.all():
        others += [item for item, alone in zip(items, apart, strict=True) if not alone]
        items = [item for item, alone in zip(items, apart, strict=True) if alone]
        storages = [storage for storage, alone in zip(storages, apart, strict=True) if alone]
    return Lone(items, storages), others


def _apart(starts: list[int], stops: list[int]) -> Booleans:
    """Which intervals meet no other. (Addresses of two devices may: it does no harm.)"""
    start, stop = np.array(starts, np.int64), np.array(stops, np.int64)
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    apart = np.ones(len(order), np.bool_)
    meets = start[1:] < np.maximum.accumulate(stop)[:-1]
    apart[order[1:][meets]] = False
    apart[order[:-1][start[1:] < stop[:-1]]] = False
    return apart

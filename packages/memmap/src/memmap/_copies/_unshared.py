"""Tensors that share memory with nothing: most of them, and quickly copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from .._modules._traverse import Found
from .._views._address import PLAIN_TENSORS, SUB_BYTE_DTYPES
from ._allocate import HUGE_FROM

_data_address: Callable[[torch.Tensor], int] = vars(torch._C)["_data_address"]


def split_unshared(found: Iterable[Found]) -> tuple[list[Found], list[Found]]:
    """Tell tensors that fill a storage of their own from those that need a closer look.

    The former are plain leaves, contiguous, whose storage holds nothing else that was found, and
    is not large: a clone is all that a copy of them can be.

    Examples
    --------
    >>> x, y = torch.zeros(3), torch.zeros(4)
    >>> unshared, others = split_unshared(Found(tensor, None) for tensor in (x, y[:2], y[2:]))
    >>> unshared[0].tensor is x, len(others)
    (True, 2)
    """
    found = list(found)
    storages = [_address_and_size(item.tensor) for item in found]
    unshared: list[Found] = []
    others: list[Found] = []
    for item, (start, nbytes), is_apart in zip(found, storages, _apart(storages), strict=True):
        is_unshared = start and is_apart and item.owned and _fills(item.tensor, nbytes)
        (unshared if is_unshared else others).append(item)
    return unshared, others


def _address_and_size(tensor: torch.Tensor) -> tuple[int, int]:
    try:
        return _data_address(tensor), tensor.untyped_storage().nbytes()
    except (RuntimeError, ValueError):  # no strided memory, or none yet
        return 0, 0


def _fills(tensor: torch.Tensor, nbytes: int) -> bool:
    """Whether a clone of a tensor has all that is in its storage of some bytes."""
    return (
        nbytes < HUGE_FROM
        and type(tensor) in PLAIN_TENSORS
        and tensor.numel() * tensor.itemsize == nbytes
        and tensor.is_leaf
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not (tensor.dtype.is_complex and tensor.is_conj())
        and not tensor.is_quantized
        and tensor.dtype not in SUB_BYTE_DTYPES
    )


def _apart(intervals: Sequence[tuple[int, int]]) -> list[bool]:
    """Which intervals meet no other. (Addresses of two devices may: it does no harm.)"""
    start, size = np.array(intervals, np.int64).reshape(-1, 2).T
    order = np.argsort(start, kind="stable")
    start, stop = start[order], (start + size)[order]
    apart = np.ones(len(order), np.bool_)
    meets = start[1:] < np.maximum.accumulate(stop)[:-1]
    apart[order[1:][meets]] = False
    apart[order[:-1][start[1:] < stop[:-1]]] = False
    found: list[bool] = apart.tolist()
    return found

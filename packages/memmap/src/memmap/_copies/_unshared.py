"""The fast path for tensors that share no memory with others. Most tensors are of this kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .._modules._traverse import Found
from .._torch import data_address, n_holders
from .._views._address import PLAIN_TENSORS, SUB_BYTE_DTYPES
from ._allocate import HUGE_FROM


def split_unshared(found: Sequence[Found]) -> tuple[list[Found], list[Found]]:
    """Split tensors into those that fill a storage alone (a clone copies it) and the others."""
    starts, stops, are_filled = [], [], []
    for tensor, _, owned in found:
        try:
            start, storage = data_address(tensor), tensor.untyped_storage()
        except (RuntimeError, ValueError):  # no strided memory, or none yet
            start, nbytes, is_filled = 0, 0, False
        else:
            nbytes = storage.nbytes()
            is_filled = start != 0 and owned and _fills(tensor, storage, nbytes)
        starts.append(start)
        stops.append(start + nbytes)
        are_filled.append(is_filled)
    unshared: list[Found] = []
    others: list[Found] = []
    for item, is_filled, is_apart in zip(found, are_filled, _apart(starts, stops), strict=True):
        (unshared if is_filled and is_apart else others).append(item)
    return unshared, others


def _fills(tensor: torch.Tensor, storage: torch.UntypedStorage, nbytes: int) -> bool:
    """Whether a tensor fills its storage alone, so that a clone copies everything."""
    return (
        nbytes < HUGE_FROM
        and type(tensor) in PLAIN_TENSORS
        and tensor.nbytes == nbytes
        and tensor.is_leaf
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor.is_conj()
        and not tensor.is_quantized
        and tensor.dtype not in SUB_BYTE_DTYPES
        and n_holders(storage._cdata) == 2  # the tensor, and the Python object
    )


def _apart(starts: Sequence[int], stops: Sequence[int]) -> list[bool]:
    """Whether each interval meets no other. (Equal addresses on two devices only cost time.)"""
    start, stop = np.array(starts, np.int64), np.array(stops, np.int64)
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    apart = np.ones(len(order), np.bool_)
    meets = start[1:] < np.maximum.accumulate(stop)[:-1]
    apart[order[1:][meets]] = False
    apart[order[:-1][start[1:] < stop[:-1]]] = False
    found: list[bool] = apart.tolist()
    return found

"""Tensors that share memory with nothing: most of them, and quickly copied."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from ._allocate import HUGE_FROM
from ._reach import Found
from ._view import SUB_BYTE_DTYPES

_data_address = torch._C._data_address  # type: ignore[attr-defined]  # not in the stubs
_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


def split_lone(found: Iterable[Found]) -> tuple[list[torch.Tensor], list[Found]]:
    """Tell tensors that fill a storage of their own from those that need a closer look.

    Parameters
    ----------
    found : iterable of Found
        Each tensor once.

    Returns
    -------
    lone : list of torch.Tensor
        Plain leaves, contiguous, whose storage holds nothing else and is not large: a clone is
        all that a copy of them can be.
    others : list of Found
        All the others.

    Examples
    --------
    >>> x, y = torch.zeros(3), torch.zeros(4)
    >>> lone, others = split_lone(Found(t, None, True, True) for t in (x, y[:2], y[2:]))
    >>> lone[0] is x, len(others)
    (True, 2)
    """
    starts: list[int] = []
    stops: list[int] = []
    filling: list[Found | None] = []
    others: list[Found] = []
    for item in found:
        tensor = item.tensor
        try:
            nbytes = tensor.untyped_storage().nbytes()
            fills = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == nbytes
            start = _data_address(tensor)
        except (RuntimeError, ValueError):  # no strided memory, or none yet
            others.append(item)
            continue
        starts.append(start)
        stops.append(start + nbytes)
        if (
            fills
            and start
            and nbytes < HUGE_FROM
            and type(tensor) in _PLAIN_TENSORS
            and item.owned
            and tensor.is_leaf
            and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
            and (tensor.itemsize > 1 or tensor.dtype not in SUB_BYTE_DTYPES)
        ):
            filling.append(item)
        else:
            filling.append(None)
            others.append(item)
    lone = []
    for candidate, is_apart in zip(filling, _apart(starts, stops), strict=True):
        if candidate is not None:
            if is_apart:
                lone.append(candidate.tensor)
            else:
                others.append(candidate)
    return lone, others


def _apart(starts: list[int], stops: list[int]) -> list[bool]:
    """Which intervals meet no other. (Addresses of two devices may: it does no harm.)"""
    start, stop = np.array(starts, np.int64), np.array(stops, np.int64)
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    apart = np.ones(len(order), np.bool_)
    meets = start[1:] < np.maximum.accumulate(stop)[:-1]
    apart[order[1:][meets]] = False
    apart[order[:-1][start[1:] < stop[:-1]]] = False
    answer: list[bool] = apart.tolist()
    return answer

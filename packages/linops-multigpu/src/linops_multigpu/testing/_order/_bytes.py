"""Which bytes a strided view touches."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Bytes: TypeAlias = slice | NDArray[np.int64]
"""Positions of bytes, each one once: what indexes an array with an entry per byte."""


def bytes_of(tensor: Tensor, address: int) -> Bytes:
    """Return the bytes that a tensor's elements occupy, counted from ``address``.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(2, 3, dtype=torch.int16)
    >>> bytes_of(x[1:], x.data_ptr())
    slice(6, 12, None)
    >>> bytes_of(x[:, 1], x.data_ptr())
    array([2, 3, 8, 9])
    """
    start = tensor.data_ptr() - address
    itemsize = tensor.element_size()
    if tensor.numel() == 0:
        return slice(0, 0)
    if tensor.is_contiguous():
        return slice(start, start + tensor.numel() * itemsize)
    elements = np.zeros((), np.int64)
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements = elements[..., None] + np.arange(length, dtype=np.int64) * stride
    # An expanded dimension touches the same element again.
    starts = np.unique(elements) * itemsize + start
    return (starts[:, None] + np.arange(itemsize)).ravel()

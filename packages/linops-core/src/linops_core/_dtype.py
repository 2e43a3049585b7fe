"""Precision: what a change of dtype means when real and complex weights stand side by side."""

from __future__ import annotations

import torch
from torch import Tensor

_PRECISIONS = {
    torch.float16: (torch.float16, torch.complex32),
    torch.complex32: (torch.float16, torch.complex32),
    torch.float32: (torch.float32, torch.complex64),
    torch.complex64: (torch.float32, torch.complex64),
    torch.float64: (torch.float64, torch.complex128),
    torch.complex128: (torch.float64, torch.complex128),
}


def in_precision_of(tensor: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype of ``tensor`` in the precision of ``dtype``: complex stays complex.

    Raises
    ------
    TypeError
        If ``dtype`` has no real and complex kind of one precision.
    """
    if dtype is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.dtype
    if dtype not in _PRECISIONS:
        raise TypeError(f"the precision of an operator must be one of a float, got {dtype}")
    real, complex_ = _PRECISIONS[dtype]
    return complex_ if tensor.is_complex() else real


def summable(x: Tensor) -> Tensor:
    """Return x in a dtype in which it can be added up: integers and bools as int64, as torch.sum.

    Examples
    --------
    >>> summable(torch.tensor([100, 100], dtype=torch.int8)).dtype
    torch.int64
    """
    return x if x.is_floating_point() or x.is_complex() else x.long()

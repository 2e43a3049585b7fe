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

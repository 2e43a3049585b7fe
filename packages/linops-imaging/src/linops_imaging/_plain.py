"""Whether the values of tensors may be read."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from linops_core.siblings import writing_is_safe

KINDS = (Tensor, torch.nn.Parameter)


def is_plain(*tensors: Tensor) -> bool:
    """Return whether they have values, and no transform but autograd records their use."""
    return writing_is_safe() and all(
        type(tensor) in KINDS
        and not tensor.is_meta
        and torch._C._has_storage(tensor)  # a batch of gradients has none
        and unpack_dual(tensor).tangent is None
        for tensor in tensors
    )

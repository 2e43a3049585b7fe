"""What somebody traces or records, and what is a fact for the next call as well."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling


def may_be_remembered(shape: torch.Size) -> bool:
    """Whether a shape is made of numbers; for who traces it is made of what stands for others."""
    return not is_dynamo_compiling() and all(type(length) is int for length in shape)


def is_recorded(*tensors: Tensor) -> bool:
    """Whether autograd follows what is computed from the tensors, so that none is written into."""
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])

"""What somebody traces, and what is a fact for the next call as well."""

from __future__ import annotations

import torch
from torch.compiler import is_dynamo_compiling


def may_be_remembered(shape: torch.Size) -> bool:
    """Whether a shape is made of numbers; for who traces it is made of what stands for others."""
    return not is_dynamo_compiling() and all(type(length) is int for length in shape)

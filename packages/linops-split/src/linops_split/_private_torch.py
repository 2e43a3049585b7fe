"""The private names of torch that this package needs; a test fails if torch changes one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch._subclasses.fake_tensor import (
    in_kernel_invocation_manager as in_kernel_invocation_manager,
)
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def is_batch(gradient: Tensor) -> bool:
    """Whether it is a batch, as in ``torch.autograd.grad(..., is_grads_batched=True)``."""
    return "Batched" in str(torch._C._dispatch_keys(gradient))  # the key has no name in Python


def convolution_backend(*args: Any) -> str:
    """Return the name of the backend of a convolution, given its arguments."""
    backend: object = torch._C._select_conv_backend(*args, None)
    return str(backend).rpartition(".")[-1]


def may_return_an_argument(func: Any) -> bool:
    """Whether an operation may return one of its arguments, or a copy of it."""
    is_composite: bool = func.has_kernel_for_dispatch_key(_COMPOSITE)
    return is_composite

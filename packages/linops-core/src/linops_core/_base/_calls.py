"""Calls of operators within others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling, is_exporting

from .._kernels._recursion import advise
from .._kernels._torch_state import has_global_hooks
from ._module import check_export


def apply_with_lazy_conjugate(linop: Any, x: Tensor) -> Tensor:
    """Return A x as a call does, or a lazy conjugate of it, which may cancel in a chain."""
    # Tracers replace the method of nn.Module, and do not pass plain tensors.
    if type(x) is not Tensor or is_dynamo_compiling() or is_hooked(linop):
        if is_exporting():
            check_export(linop)
        return nn.Module.__call__(linop, x)  # type: ignore[no-any-return]
    try:
        y: Tensor = linop.forward(x)
    except RecursionError as error:
        advise(error)
        raise
    except RuntimeError as error:
        check_input(linop, x, error)
        raise
    return y


def is_hooked(linop: Any) -> bool:
    """Whether a call of an operator does more than call ``forward``."""
    return bool(
        linop._forward_hooks
        or linop._forward_pre_hooks
        or linop._backward_hooks
        or linop._backward_pre_hooks
        or linop._compiled_call_impl
        or has_global_hooks()
    )


def check_input(linop: Any, x: Tensor, error: RuntimeError) -> None:
    """Raise an error for an input where the operator cannot work, instead of one of torch.

    It is called after an error of torch, because right calls would wait for it.
    """
    devices = linop.input_devices
    if devices and x.device not in devices:
        wanted = " or ".join(map(str, devices))
        raise ValueError(
            f"{linop.signature}: the input must be on the device of the weights, {wanted}, got one "
            f"on {x.device}; move one of them by .to(device)"
        ) from error
    if x.layout is not torch.strided:
        raise TypeError(
            f"{linop.signature}: the input must be a dense tensor, got the layout {x.layout}; "
            "make it one: x.to_dense()"
        ) from error

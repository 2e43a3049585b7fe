"""Calls of operators within others."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling, is_exporting

from .._kernels._recursion import advise
from ._late_hooks import is_hooked
from ._module import check_export


def applied(linop: Any, x: Tensor) -> Tensor:
    """Return A x as a call does, or a lazy conjugate of it, which may cancel in a chain."""
    # Tracers replace the method of nn.Module, and do not pass plain tensors.
    if type(x) is not Tensor or is_dynamo_compiling() or is_hooked(linop.__dict__):
        if is_exporting():
            check_export(linop)
        return nn.Module.__call__(linop, x)  # type: ignore[no-any-return]
    try:
        y: Tensor = linop.forward(x)
    except RecursionError as error:
        advise(error)
        raise
    return y

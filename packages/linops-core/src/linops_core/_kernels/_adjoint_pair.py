"""A linear function for autograd that knows its adjoint, and needs nothing else for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._tracing import is_recorded

Linear = Callable[[Tensor], Tensor]


def applied(function: Linear, adjoint: Linear, x: Tensor) -> Tensor:
    """Return ``function(x)`` with the gradient ``adjoint``: what autograd would find is slower."""
    if not is_recorded(x) or torch.compiler.is_compiling():
        return function(x)
    y: Tensor = _Pair.apply(x, function, adjoint)  # type: ignore[no-untyped-call]
    return y


class _Pair(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, function: Linear, adjoint: Linear) -> Tensor:
        return function(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.function, ctx.adjoint = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return applied(ctx.adjoint, ctx.function, grad), None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        return applied(ctx.function, ctx.adjoint, change)

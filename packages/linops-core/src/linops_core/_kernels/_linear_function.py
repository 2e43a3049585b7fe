"""A linear function for autograd that knows its adjoint, and needs nothing else for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ._tracing import is_recorded

Linear: TypeAlias = Callable[[Tensor], Tensor]


def linear_function(function: Linear, adjoint: Linear, x: Tensor) -> Tensor:
    """Return ``function(x)``, whose gradient to x is ``adjoint`` and not what autograd would find.

    That is far slower for what reads and writes memory in patterns. For ``fn`` of an operator of
    one's own whose adjoint is fast. A compiler finds its own gradient.

    Parameters
    ----------
    function, adjoint : callable
        Linear functions of one tensor, adjoint to each other. No gradient reaches other tensors
        that they use.
    x : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> x = torch.ones(3, requires_grad=True)
    >>> y = linear_function(lambda x: x[1:], lambda y: torch.nn.functional.pad(y, (1, 0)), x)
    >>> torch.autograd.grad(y.sum(), x)
    (tensor([0., 1., 1.]),)
    """
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
        return linear_function(ctx.adjoint, ctx.function, grad), None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        return linear_function(ctx.function, ctx.adjoint, change)

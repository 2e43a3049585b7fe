"""A linear function whose gradient is its adjoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ._tracing import is_recorded

Linear: TypeAlias = Callable[[Tensor], Tensor]


def linear_function(function: Linear, adjoint: Linear, x: Tensor, *weights: Tensor) -> Tensor:
    """Return ``function(x)`` with ``adjoint`` as its gradient to x.

    Use it in ``fn`` of an operator whose adjoint is faster than the gradient of autograd. A
    compiler still finds its own gradient.

    Parameters
    ----------
    function, adjoint : callable
        Linear functions of one tensor, adjoint to each other. Other tensors that they use get no
        gradient.
    x : Tensor
    *weights : Tensor
        Other tensors that they use. If one is written to before the gradient is computed, an error
        is raised.

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
    constants = [weight.detach() for weight in weights]
    y: Tensor = _Pair.apply(x, function, adjoint, *constants)  # type: ignore[no-untyped-call]
    return y


class _Pair(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, function: Linear, adjoint: Linear, *weights: Tensor) -> Tensor:
        return function(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.function, ctx.adjoint, *weights = inputs
        ctx.save_for_backward(*weights)  # torch detects writes to them
        ctx.save_for_forward(*weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = ctx.saved_tensors
        of_x = linear_function(ctx.adjoint, ctx.function, grad, *weights)
        return of_x, None, None, *[None] * len(weights)

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        return linear_function(ctx.function, ctx.adjoint, change, *ctx.saved_tensors)

"""Implicit gradients of a solution: from the equation that it solves, not through the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from linops_core import NamedLinop
from linops_core.siblings import TensorState, is_differentiated, is_transformed

from .._shared._checks import Operator


def _check_weights(owner: str, operator: Operator, state: TensorState) -> None:
    """Raise an error if weights were replaced or written to since the solution."""
    if not state.is_current(*_tensors_of(operator)):
        name = operator.signature if isinstance(operator, NamedLinop) else "A function"
        raise RuntimeError(
            f"{owner}: the weights of {name} must not change between the solution and the "
            "gradient, got changed weights; compute the gradient first (weights given to "
            "torch.func.functional_call are gone when it returns: call torch.autograd.grad inside "
            "of it), or use gradients through the steps: conjugate_gradients with implicit=False"
        )


def _tensors_of(operator: Operator) -> list[Tensor]:
    """Return the weights of an operator, or of the module of a bound method."""
    held = getattr(operator, "__self__", operator)
    if isinstance(held, torch.nn.Module):
        return [*held.parameters(), *held.buffers()]
    return [held] if isinstance(held, Tensor) else []


class _Solved(torch.autograd.Function):
    """x, with ``back`` as the map from the gradient to x to the gradient to b."""

    @staticmethod
    def forward(ctx: Any, b: Tensor, x: Tensor, back: Operator) -> Tensor:
        ctx.back = back
        ctx.save_for_backward(b)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        solved = ctx.back(gradient)
        if torch.is_grad_enabled():
            # A graph of the gradients is made, in which this one would pass for a constant. It
            # hangs on b, and so on all that it depends on: else autograd would not come by.
            solved = _Last.apply(solved, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return solved, None, None


class _Last(torch.autograd.Function):
    """A gradient that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, b: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        raise RuntimeError(
            "implicit gradients must not be differentiated again, got a second derivative "
            "(conjugate_gradients with implicit=False has one)"
        )


def has_gradient(owner: str, defect: Tensor) -> bool:
    """Whether a gradient of the solution is recorded; refuse derivatives that it does not have."""
    has_tangent = is_differentiated() and forward_ad.unpack_dual(defect).tangent is not None
    if has_tangent or (defect.requires_grad and is_transformed()):
        raise RuntimeError(
            f"{owner}: implicit gradients must be taken by torch.autograd.grad or backward(), got "
            "a derivative by torch.func or in forward mode (conjugate_gradients with "
            "implicit=False has those)"
        )
    return defect.requires_grad


def attach_gradient(
    x: Tensor,
    defect: Tensor,
    adjoint: Callable[[Tensor], tuple[Tensor, str | None]],
    owner: str,
    operators: Sequence[Operator],
    complaint: str | None = None,
) -> Tensor:
    """Return x with the gradient of dx = M^-1 db, where b, the defect, has the derivative -M to x.

    x is a constant in b. ``adjoint``, that of M^-1, applies the operators, with the same weights.
    It also says why its system has no solution, as ``complaint`` does for x. Then the gradient is
    not defined, and the backward pass raises an error.
    """
    if not has_gradient(owner, defect):
        return x
    states = [TensorState(*_tensors_of(operator)) for operator in operators]

    @torch.no_grad()
    def back(gradient: Tensor) -> Tensor:
        for operator, seen in zip(operators, states, strict=True):
            _check_weights(owner, operator, seen)
        result, its_complaint = adjoint(gradient.detach())
        if (unsolved := complaint or its_complaint) is not None:
            raise RuntimeError(
                f"{owner}: for a gradient, A x = y and A^H z = g must have solutions, where g is "
                f"the gradient to x (lsqr needs neither); got, for one of them, {unsolved}"
            )
        return result

    solution: Tensor = _Solved.apply(defect, x, back)  # type: ignore[no-untyped-call]
    return solution

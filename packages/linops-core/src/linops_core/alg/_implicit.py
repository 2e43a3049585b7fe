"""Gradients of a solution from the equation that it solves, not through the steps to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Solved(torch.autograd.Function):
    """x with the gradient of ``S b``, for a linear solver S whose adjoint is given."""

    @staticmethod
    def forward(ctx: Any, b: Tensor, x: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.adjoint = adjoint
        ctx.save_for_backward(b)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.no_grad():
            solved = ctx.adjoint(gradient.detach())
        if not torch.is_grad_enabled():
            return solved, None, None
        # A graph of the gradients is made, in which this one would pass for a constant. It hangs
        # on b, and so on all that it depends on: else autograd would not even come by.
        last = _Last.apply(solved, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return last, None, None


class _Last(torch.autograd.Function):
    """A gradient that must not be derived again."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, b: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        raise RuntimeError(
            "implicit gradients must not be derived again, got a second derivative "
            "(conjugate_gradients with implicit=False has one)"
        )


def attach(x: Tensor, defect: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Return the solution x of a linear problem with the gradient that its equation gives.

    By the implicit function theorem: let :math:`b(\theta, x) = 0` at the solution, with the
    derivative -M to x. Then :math:`dx = M^{-1} \, \partial_\theta b`.

    Parameters
    ----------
    x : Tensor
        The solution, without gradient.
    defect : Tensor
        b, in which x is a constant and autograd follows everything else: so gradients reach
        whatever the operator was made of.
    adjoint : function
        The adjoint of :math:`M^{-1}`. It is called without autograd, so a second derivative is
        refused.
    """
    solution: Tensor = _Solved.apply(defect, x, adjoint)  # type: ignore[no-untyped-call]
    return solution

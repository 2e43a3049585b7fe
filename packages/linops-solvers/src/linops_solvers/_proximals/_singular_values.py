"""Shrinkage of singular values, with a derivative at equal ones and at zero."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from linops_core.siblings import is_differentiated

from .._shared._tall import factors, n_blocks_of


def singular_values(x: Tensor) -> Tensor:
    """Return the singular values of matrices (..., M, N), with all derivatives."""
    if _is_long(x) and is_differentiated(x):  # derivatives of blocks without full rank are infinite
        values: Tensor = torch.linalg.svdvals(x.to(torch.promote_types(x.dtype, torch.float64)))
        return values.to(x.dtype.to_real())
    return _decomposed(x)[1] if _is_long(x) else torch.linalg.svdvals(x)


def _is_long(x: Tensor) -> bool:
    return x.ndim > 1 and n_blocks_of(x if x.shape[-2] >= x.shape[-1] else x.mT) > 1


def shrunk_singular_values(x: Tensor, threshold: Tensor) -> Tensor:
    """Return the matrices (..., M, N) with singular values max(s - threshold, 0).

    The derivative exists unless a singular value is the threshold; there it is that from below. A
    second derivative raises a RuntimeError.

    References
    ----------
    A. S. Lewis and H. S. Sendov, "Nonsmooth analysis of singular values", Set-Valued Analysis 13
    (2005), 213-264.
    """
    result: Tensor = _Shrunk.apply(x, threshold)[0]  # type: ignore[no-untyped-call]
    return result


def _decomposed(x: Tensor) -> tuple[Tensor, ...]:
    """Return U, S and V^H of matrices (..., M, N), without the other columns of U and V."""
    if x.shape[-2] < x.shape[-1]:
        U, S, Vh = _decomposed(x.mH)
        return Vh.mH, S, U.mH
    return factors(partial(torch.linalg.svd, full_matrices=False), x)


class _Shrunk(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> tuple[Tensor, ...]:
        U, S, Vh = _decomposed(x)
        return (U * (S - threshold).clamp(min=0).unsqueeze(-2)) @ Vh, U, S, Vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])
        ctx.save_for_forward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return None, None
        along, inwards = _Derivative.apply(  # type: ignore[no-untyped-call]
            gradient, *ctx.saved_tensors
        )
        return along, -(inwards.conj() * gradient).real.sum() if ctx.needs_input_grad[1] else None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, of_threshold: Tensor | None) -> tuple[Any, ...]:
        x = ctx.saved_tensors[0]
        along, inwards = _Derivative.apply(  # type: ignore[no-untyped-call]
            torch.zeros_like(x) if tangent is None else tangent, *ctx.saved_tensors
        )
        return along if of_threshold is None else along - of_threshold * inwards, None, None, None


class _Derivative(Function):
    """The derivative along a direction, which is Hermitian in it, and U V^H of what is above."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        direction: Tensor, x: Tensor, threshold: Tensor, U: Tensor, S: Tensor, Vh: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Divided differences of the odd function that shrinks: of s_i and s_j for the Hermitian
        # part of U^H E V, of s_i and -s_j for the rest. Both sides of the threshold are linear.
        is_above = (S > threshold) | (threshold == 0)
        shrunk = (S - threshold).clamp(min=0)
        a, b = S.unsqueeze(-1), S.unsqueeze(-2)
        both = is_above.unsqueeze(-1) == is_above.unsqueeze(-2)
        apart = torch.where(both, 1, (a - b).abs())
        one_above = (torch.maximum(a, b) - threshold) / apart
        inside = torch.where(both, is_above.unsqueeze(-1).to(S.dtype), one_above)
        outside = (shrunk.unsqueeze(-1) + shrunk.unsqueeze(-2)) / torch.where(a + b > 0, a + b, 1)
        outside = torch.where((a + b > 0) | (threshold > 0), outside, 1)
        diagonal = outside.diagonal(dim1=-2, dim2=-1)
        left, right = direction @ Vh.mH, U.mH @ direction
        core = U.mH @ left
        turned = inside * (core + core.mH) / 2 + outside * (core - core.mH) / 2
        turned = U @ turned + (left - U @ core) * diagonal.unsqueeze(-2)
        along = turned @ Vh + (U * diagonal.unsqueeze(-2)) @ (right - core @ Vh)
        return along, (U * (S > threshold).unsqueeze(-2)) @ Vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "nuclear_norm: the proximal map must be differentiated once, got a second derivative"
        )

    jvp = backward

"""The adjoint of a linear function by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ._dtype import as_complex, real_part

Function = Callable[[Tensor], Tensor]

REFUSALS = (RuntimeError, TypeError, ValueError)
"""Exceptions that functions raise for a dtype that they do not support."""


def accepts_complex(function: Function, x: Tensor) -> bool:
    """Whether a function supports the complex dtype of the precision of x, which is real."""
    try:
        with torch.no_grad():
            function(as_complex(x))
    except REFUSALS:
        return False
    return True


def transposed(
    function: Function, lengths: Sequence[int], y: Tensor, is_complex_linear: bool
) -> Tensor:
    """Return A^H y for a linear function, from its vector-Jacobian product at zero.

    It is the adjoint with respect to Re<x, y>. For a function that is linear over the complex
    numbers it is the usual adjoint, if the function is evaluated at complex vectors. So the
    function is evaluated at complex vectors, unless it refuses them, or y is real and the outputs
    for real vectors are real.
    """
    if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
        with torch.inference_mode(False), torch.no_grad():  # no derivatives in inference mode
            return transposed(function, lengths, y.clone(), is_complex_linear)
    is_number = y.is_floating_point() or y.is_complex()
    dtype = real_part(y).dtype if is_number else torch.get_default_dtype()
    x = torch.zeros(lengths, dtype=dtype, device=y.device)
    image, back = _vector_jacobian_product(function, x, y, is_complex_linear)
    if image.shape != y.shape:
        raise ValueError(
            f"an output of shape {tuple(image.shape)} for an input of shape {tuple(lengths)}, "
            f"not of {tuple(y.shape)}"
        )
    gradient = as_complex(y) if image.is_complex() else real_part(y)
    (result,) = back(gradient.to(image.dtype))
    adjoint: Tensor = result
    return adjoint


def _vector_jacobian_product(
    function: Function, x: Tensor, y: Tensor, is_complex_linear: bool
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor]]]:
    """Return the function at zero, and the product."""
    if not is_complex_linear:
        try:
            return _vjp(function, as_complex(x))
        except REFUSALS:
            return _vjp(function, x)
    if not y.is_complex():
        result = _vjp(function, x)
        if not result[0].is_complex():
            return result
    return _vjp(function, as_complex(x))


def _vjp(function: Function, x: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor]]]:
    try:
        image, back = torch.func.vjp(function, x)[:2]
    except RuntimeError as error:
        if "saved tensor hooks" not in str(error):
            raise
        # torch.func refuses to work within torch.utils.checkpoint and save_on_cpu.
        return _vjp_within_hooks(function, x)
    return image, back


def _vjp_within_hooks(
    function: Function, x: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor]]]:
    with torch.enable_grad():
        image = function(x.requires_grad_())

    def back(y: Tensor) -> tuple[Tensor]:
        if not image.requires_grad:
            return (torch.zeros_like(x, requires_grad=False),)
        is_recorded = torch.is_grad_enabled()
        (product,) = torch.autograd.grad(
            image, x, y, create_graph=is_recorded, materialize_grads=True
        )
        return (product,)

    return image.detach(), back

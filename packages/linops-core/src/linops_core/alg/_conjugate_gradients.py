"""The method of conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm


@dataclass(frozen=True)
class CGStep:
    """Where the iteration stands after a step."""

    iteration: int
    """Number of steps done."""
    x: Tensor
    """The solution so far."""
    residual: float
    """``|A x - y| / |y|``, as the recurrence has it."""
    loss: float
    """``x^H A x / 2 - Re(x^H y)``, which every step decreases."""


def conjugate_gradients(
    A: Callable[[Tensor], Tensor],
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 20,
    gtol: float = 1e-3,
    ltol: float = 1e-5,
    tqdm_kwargs: Mapping[str, object] | None = None,
    *,
    callback: Callable[[CGStep], None] | None = None,
) -> Tensor:
    r"""Solve :math:`A x = y` for a Hermitian positive definite :math:`A`.

    The solution is the minimum of :math:`f(x) = \frac12 x^H A x - \mathrm{Re}(x^H y)`, whose
    gradient is :math:`A x - y`. Gradients flow through the iterations to y, x0 and A; the
    tensors that autograd then has to keep grow with their number.

    Parameters
    ----------
    A : NamedLinop or function
        From tensors of the shape of y to such tensors.
    y : Tensor
        Right-hand side; real or complex, any shape. It is one vector: there are no batches.
    x0 : Tensor, optional
        First guess; zero by default.
    max_num_iters : int
        Number of steps after which to stop in any case.
    gtol : float
        Stop when the gradient has become small: :math:`|A x - y| \le \mathrm{gtol} \, |y|`, or
        as small as the precision of y lets it be.
    ltol : float
        Stop when a step decreases f by no more than ltol times :math:`|f|`.
    tqdm_kwargs : mapping, optional
        For the progress bar; ``{"disable": True}`` hides it.
    callback : function, optional
        Called with a :class:`CGStep` after every step.

    Returns
    -------
    Tensor
        Shape of y; y itself is not written to.

    Raises
    ------
    TypeError
        If y is neither floating nor complex.
    ValueError
        If A returns another shape or dtype, x0 has another, or A shows itself not to be
        Hermitian positive definite.
    ArithmeticError
        If the iteration meets NaN or infinity.

    References
    ----------
    M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems",
    Journal of Research of the National Bureau of Standards 49 (1952), section 3.

    Examples
    --------
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> x = conjugate_gradients(A.mv, torch.tensor([3.0, 4.0]), tqdm_kwargs={"disable": True})
    >>> torch.allclose(x, torch.ones(2))
    True
    """
    if not (y.is_floating_point() or y.is_complex()):
        raise TypeError(
            f"conjugate_gradients: y must be of a floating or complex dtype, got {y.dtype}"
        )
    if x0 is not None and (x0.shape, x0.dtype) != (y.shape, y.dtype):
        raise ValueError(
            f"conjugate_gradients: x0 must have the shape and dtype of y, {tuple(y.shape)} of "
            f"{y.dtype}, got {tuple(x0.shape)} of {x0.dtype}"
        )
    unit = _unit_of(y)
    y = y / unit
    x = torch.zeros_like(y) if x0 is None else x0 / unit
    residual = y.clone() if x0 is None else y - _applied(A, x)
    direction = residual.clone()
    energy = _norm_squared(residual)
    size = _norm_squared(y).item() ** 0.5 or 1.0
    # Below the precision the recurrence goes on, and the residual itself does not.
    goal = max(gtol, torch.finfo(y.dtype).eps) * size
    loss = -0.5 * torch.vdot(x.flatten(), (residual + y).flatten()).real.item()
    bar = tqdm(range(max_num_iters), **{"desc": "CG", **(tqdm_kwargs or {})})
    with bar:
        for iteration in bar:
            norm = _finite(energy.item()) ** 0.5
            if norm <= goal:
                break
            image = _applied(A, direction)
            step = energy / _curvature(direction, image)
            x = _add_scaled(x, step, direction)
            residual = _add_scaled(residual, -step, image)
            decrease = 0.5 * step.item() * energy.item()
            loss -= decrease
            energy, previous = _norm_squared(residual), energy
            relative = _finite(energy.item()) ** 0.5 / size
            bar.set_postfix(residual=f"{relative:.2e}", refresh=False)
            if callback is not None:
                callback(CGStep(iteration + 1, x * unit, relative, loss * unit * unit))
            if decrease <= ltol * abs(loss):
                break
            direction = _add_scaled(residual, energy / previous, direction, into=direction)
    return x * unit


def _unit_of(y: Tensor) -> float:
    """Return the power of two below the largest magnitude of y; 1 for zeros.

    In this unit no square of a norm leaves the range of the dtype, and to change to it and back
    rounds nothing.
    """
    largest = _finite(y.detach().abs().max().item()) if y.numel() else 0.0
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0


def _applied(A: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    image = A(x)
    if (image.shape, image.dtype) != (x.shape, x.dtype):
        raise ValueError(
            "conjugate_gradients: A must map a space to itself, got an output of shape "
            f"{tuple(image.shape)} and {image.dtype} for an input of shape {tuple(x.shape)} "
            f"and {x.dtype}"
        )
    return image


def _curvature(direction: Tensor, image: Tensor) -> Tensor:
    """Return direction^H A direction, which is real and positive for a valid A."""
    product = torch.vdot(direction.flatten(), image.flatten())
    value = complex(product.item())
    _finite(abs(value))
    # Each root by itself: the product of the squares may leave the range of the dtype.
    size = _norm_squared(direction).item() ** 0.5 * _norm_squared(image).item() ** 0.5
    # The rounding of an inner product is far below the root of the precision.
    tolerance = torch.finfo(product.dtype).eps ** 0.5 * size
    if abs(value.imag) > tolerance or value.real <= 0:
        raise ValueError(
            "conjugate_gradients: A must be Hermitian and positive definite, "
            f"got p^H A p = {value:.3g} for a direction p"
        )
    return product.real


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ArithmeticError(f"conjugate_gradients: values must stay finite, got {value}")
    return value


def _norm_squared(x: Tensor) -> Tensor:
    return torch.vdot(x.flatten(), x.flatten()).real


def _add_scaled(x: Tensor, scale: Tensor, z: Tensor, into: Tensor | None = None) -> Tensor:
    """Return x + scale z; in the memory of x, or of ``into``, unless autograd follows."""
    scale = scale.to(z.dtype)
    if torch.is_grad_enabled() and (x.requires_grad or z.requires_grad or scale.requires_grad):
        return torch.addcmul(x, scale, z)
    return torch.addcmul(x, scale, z, out=x if into is None else into)

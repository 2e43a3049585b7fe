"""Kernels of interpolation, as functions of the distance in units of half the width."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..._numbers import check_real
from .._alike import steps_that_differ

Kernel: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]
"""Called with t^2, and for a distance along one axis also with t, grid point minus location. The
sign of t shows a kernel with knots on which side of a knot larger locations are."""


def interpolation_kernel(
    name: str, width: float, params: Mapping[str, float] | None, n_axes: int = 1
) -> Kernel:
    """Return the kernel "kaiser_bessel", "spline" or "linear" with its ``beta`` or ``order``.

    A weight is the product of kernels along ``n_axes`` axes.
    """
    names = {"kaiser_bessel": "beta", "spline": "order", "linear": None}
    if name not in [*names]:
        raise ValueError(f"Interpolate: kernel must be one of {[*names]}, got {name!r}")
    given = dict(params or {})
    value = given.pop(names[name] or "", None)
    is_scaled = name == "kaiser_bessel" and bool(given.pop("scaled", False))
    if given:
        wanted = f"{names[name]!r} alone" if names[name] else "empty"
        raise ValueError(f"Interpolate: kernel_params of {name!r} must be {wanted}, got {[*given]}")
    if name == "kaiser_bessel":
        value = beatty_beta(width) if value is None else value
        beta = check_real("Interpolate", "beta", value, 0)
        kernel = KaiserBessel(beta, is_scaled, n_axes)
        if kernel.exponent > 700:
            raise ValueError(
                "Interpolate: weights must be in the range of double precision, got products of "
                f"Kaiser-Bessel kernels up to e^{kernel.exponent:.0f} for beta={beta:.1f}; choose "
                'a smaller width or beta, or add "scaled": True to kernel_params'
            )
        return kernel
    order = 1 if value is None else value
    if order not in (1, 2, 3):
        raise ValueError(f"Interpolate: the order of a spline must be 1, 2 or 3, got {order!r}")
    return Spline(int(order))


def beatty_beta(width: float, oversampling: float = 2.0) -> float:
    r"""Return :math:`\pi \sqrt{(w / \alpha)^2 (\alpha - 1/2)^2 - 0.8}`, or 0 without a real root.

    It is equation 5 of Beatty et al., see :class:`Interpolate`.
    """
    square = (width / oversampling) ** 2 * (oversampling - 0.5) ** 2 - 0.8
    return math.pi * math.sqrt(max(square, 0.0))


@dataclass(frozen=True)
class KaiserBessel:
    r"""The kernel :math:`I_0(\beta \sqrt{1 - t^2})` for :math:`|t| < 1`, elsewhere 0.

    If ``is_scaled``, it is multiplied by :math:`e^{-\beta}`.
    """

    beta: float
    is_scaled: bool = False
    n_axes: int = 1

    def __call__(self, t2: Tensor, t: Tensor | None = None) -> Tensor:
        """Return the values for squares of distances."""
        outside = t2 >= 1  # False for NaN, so that the weight of a NaN location is NaN
        largest = 0.25 * self.beta**2
        values = bessel(largest * (1 - t2).clamp(min=0), 0, largest)
        values = values * math.exp(-self.beta) if self.is_scaled else values
        return torch.where(outside, 0, values)

    @property
    def exponent(self) -> float:
        """The exponent of e in the largest product of kernels along ``n_axes`` axes.

        A scaled kernel is computed from :math:`I_0`, too.
        """
        return self.beta * (1 if self.is_scaled else self.n_axes)


@dataclass(frozen=True)
class Spline:
    """The B-spline of some order, stretched so that it ends at ``|t| = 1``.

    Given ``t``, its derivatives at a knot are those towards larger locations, that is, smaller t.
    Then sums over a grid have the derivatives of the interpolated function wherever these exist.
    """

    order: int

    def __call__(self, t2: Tensor, t: Tensor | None = None) -> Tensor:
        """Return the values for squares of distances, and optional distances."""
        scale = (self.order + 1) / 2
        u2 = t2 * scale**2
        if t is None:
            # At 0 the root has no derivative; its factor is zero there.
            u = torch.where(u2 == 0, 1, u2).sqrt() * (u2 != 0)
            is_inner = u2 < 0.25
        else:
            u = torch.where(t > 0, t, -t) * scale
            is_inner = (t > -0.5 / scale) & (t <= 0.5 / scale)
        if self.order == 1:
            return _positive(1 - u)
        if self.order == 2:
            return torch.where(is_inner, 0.75 - u2, 0.5 * _positive(1.5 - u).square())
        return torch.where(u2 < 1, 2 / 3 - u2 + 0.5 * u2 * u, _positive(2 - u) ** 3 / 6)


def _positive(x: Tensor) -> Tensor:
    """Return max(x, 0), with derivative 1 at 0: clamp has 1 in torch 2.13 and 0 in 2.15."""
    return torch.where(x < 0, 0, x)


def bessel(q: Tensor, order: int, largest: float) -> Tensor:
    r"""Return :math:`\sum_k q^k / (k! \, (k + m)!)` of order m, for q from 0 to ``largest``.

    At :math:`q = z^2 / 4` it is :math:`I_m(z) (2 / z)^m`. Its derivative is the sum of order m + 1.
    """
    if torch.compiler.is_compiling():
        return _series(q, order, largest)  # a compiler differentiates and fuses it
    result: Tensor = _Bessel.apply(q, order, largest)  # type: ignore[no-untyped-call]
    return result


class _Bessel(torch.autograd.Function):
    """`bessel`, with only its argument kept for derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, order: int, largest: float) -> Tensor:
        return _series(q, order, largest)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, float], output: Tensor) -> None:
        q, ctx.order, ctx.largest = inputs
        ctx.save_for_backward(q)
        ctx.save_for_forward(q)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (q,) = ctx.saved_tensors
        return grad * bessel(q, ctx.order + 1, ctx.largest), None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        (q,) = ctx.saved_tensors
        return change * bessel(q, ctx.order + 1, ctx.largest)


def _series(q: Tensor, order: int, largest: float) -> Tensor:
    """Return the sum of the positive terms that matter at ``largest``.

    For usual widths it takes a quarter of the time of `torch.special.i0`.
    """
    term = total = 1.0
    n_terms = 1
    while term > 0.1 * torch.finfo(q.dtype).eps * total:
        term *= largest / (n_terms * (n_terms + order))
        total += term
        n_terms += 1
    one = torch.ones((), dtype=q.dtype, device=q.device)
    result = one
    terms = range(n_terms - 1, 0, -1)
    # Horner; ratios of terms do not underflow
    for k in steps_that_differ(q, terms, lambda _: None):
        result = torch.addcmul(one, q, result, value=1 / (k * (k + order)))
    return result.expand(q.shape) / math.factorial(order)

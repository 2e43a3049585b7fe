"""Fourier transforms of the unit disc and the unit ball, to rounding in double precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Below, J1 is the mean of 16 points: its error is J63, less than 1e-17. Above, the asymptotic
# series has 20 terms: the next one is less than 1e-15.
_FAR = 25.0
_POINTS, _TERMS = 16, 20

# A series below; above, the difference in the closed form loses at most a digit.
_NEAR = 1.0


def disc(q: Tensor) -> Tensor:
    r"""Return 2 J1(q) / q for q >= 0: the transform of the unit disc divided by its area.

    torch's ``bessel_j1`` is wrong by up to 5e-7. :math:`J_1(q) = \frac2\pi \int_0^{\pi / 2} \sin t
    \sin(q \sin t) \, dt` is computed by the midpoint rule, whose error for a periodic function is
    J of order 63 [1, 10.9.2]; for large q by Hankel's expansion [1, 10.17.3].

    References
    ----------
    [1] NIST Digital Library of Mathematical Functions.
    """
    # Not clamp: at the limit its derivative is 1 in torch 2.13 and 0 in 2.15.
    is_near = q < _FAR
    near, mean = torch.where(is_near, q, _FAR), torch.zeros_like(q)
    for k in range(_POINTS):
        height = math.sin((k + 0.5) * math.pi / (2 * _POINTS))
        mean += height**2 / _POINTS * torch.sinc(near * (height / math.pi))
    far = torch.where(is_near, _FAR, q)
    term, sums = torch.ones_like(q), [torch.zeros_like(q), torch.zeros_like(q)]
    for k in range(_TERMS):
        sums[k % 2] += term if k % 4 < 2 else -term
        term = term * ((4 - (2 * k + 1) ** 2) / (8 * (k + 1))) / far
    even, odd = sums
    sine, cosine = far.sin(), far.cos()
    bessel = (even * (sine - cosine) + odd * (sine + cosine)) / (math.pi * far).sqrt()
    return torch.where(is_near, 2 * mean, 2 * bessel / far)


def ball(q: Tensor) -> Tensor:
    """Return 3 (sin q - q cos q) / q^3 for q >= 0: the same of the unit ball and its volume."""
    is_near = q < _NEAR
    near, term = torch.where(is_near, q, _NEAR), torch.ones_like(q)
    series = torch.zeros_like(q)
    for k in range(10):
        series += term
        term = -term * near.square() / ((2 * k + 2) * (2 * k + 5))
    far = torch.where(is_near, _NEAR, q)
    return torch.where(is_near, series, 3 * (far.sin() - far * far.cos()) / far**3)

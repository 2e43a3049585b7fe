"""Projections: proximal maps of sets, to the nearest of their points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._shared._checks import checked_number
from .._shared._precision import narrowed, widened
from .._shared._vectors import BatchedVectors, norm
from ._proximal import Proximal


def box(lower: float = -math.inf, upper: float = math.inf) -> Proximal:
    """The nearest point of which all entries are between two real numbers; x is real.

    ``box(0)`` are the numbers that are not negative. A lower bound above the upper raises a
    ValueError, complex x a TypeError.

    References
    ----------
    N. Parikh and S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
    (2014), chapter 6.

    Examples
    --------
    >>> box(0, 1)(torch.tensor([-2.0, 0.5, 3.0]), 1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if not lower <= upper or lower == math.inf or upper == -math.inf:
        raise ValueError(
            f"box: lower must be at most upper, and a finite number between them, got {lower} "
            f"and {upper}"
        )

    def proximal(z: Tensor, step: float) -> Tensor:
        if z.is_complex():
            raise TypeError(f"box: x must be real, got {z.dtype}")
        return z.clamp(lower, upper)

    return proximal


def l2_ball(radius: float, center: Tensor | None = None) -> Proximal:
    """The nearest point of which the distance to a centre is at most a radius.

    The centre is of the shape of x, zero by default; a radius below 0 raises a ValueError. See
    the reference of :func:`box`.

    Examples
    --------
    >>> l2_ball(1.0)(torch.tensor([3.0, 4.0]), 1.0)
    tensor([0.6000, 0.8000])
    """
    radius = checked_number("l2_ball", "radius", radius, may_be_inf=True)

    def proximal(z: Tensor, step: float) -> Tensor:
        offset = widened(z) if center is None else widened(z) - center
        unit = BatchedVectors().unit(offset)
        length = norm(offset / unit) * unit
        factor = torch.where(length > radius, radius / torch.where(length > 0, length, 1), 1)
        found = offset * factor if center is None else center + offset * factor
        return narrowed(found, z.dtype)

    return proximal

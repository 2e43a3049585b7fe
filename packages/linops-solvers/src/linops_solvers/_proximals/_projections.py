"""Projections onto sets: their proximal maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_real

from .._shared._precision import at_least_single
from .._shared._space import Space
from ._proximal import (
    Proximal,
    ProximalMap,
    absolute_values,
    axes_of,
    checked_axes,
    fitted_weight,
    indicator,
    indicator_value,
)


def box(lower: float | Tensor | None = None, upper: float | Tensor | None = None) -> ProximalMap:
    """The projection onto real x with all entries between two numbers.

    ``box(0)`` is the projection onto x >= 0. A bound may be a real tensor, which is broadcast to x;
    None is no bound. A lower bound above the upper one raises a ValueError, complex x a TypeError.

    References
    ----------
    N. Parikh and S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
    (2014), chapter 6.

    Examples
    --------
    >>> box(0, 1)(torch.tensor([-2.0, 0.5, 3.0]), 1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    lower = -math.inf if lower is None else lower
    upper = math.inf if upper is None else upper
    # In double precision, because two bounds may be the same number in the default dtype.
    low, high = (
        at_least_single(
            torch.as_tensor(
                bound, dtype=torch.float64 if isinstance(bound, float | int) else None, device="cpu"
            )
        )
        for bound in (lower, upper)
    )
    if low.is_complex() or high.is_complex():
        raise TypeError(f"box: bounds must be real, got {low.dtype} and {high.dtype}")
    if not bool(((low <= high) & (low < math.inf) & (high > -math.inf)).all()):
        raise ValueError(
            f"box: lower must be at most upper, with a finite number between them, got {lower} "
            f"and {upper}"
        )

    def proximal(z: Tensor, step: float) -> Tensor:
        if z.is_complex():
            raise TypeError(f"box: x must be real, got {z.dtype}")
        low, high = (fitted_weight("box", bound, z, "a bound") for bound in (lower, upper))
        return z.clamp(min=low).clamp(max=high)  # torch refuses a number beside a tensor

    def excess(x: Tensor) -> Tensor:
        if x.is_complex():
            raise TypeError(f"box: x must be real, got {x.dtype}")
        return (x - proximal(x, 0.0)).abs() / x.abs().clamp(min=torch.finfo(x.dtype).tiny)

    return ProximalMap(proximal, owner="box", value_in=indicator(excess))


def l2_ball(radius: float, center: Tensor | float | None = None) -> ProximalMap:
    """The projection onto a ball: the distance to its centre is at most the radius.

    The centre is broadcast to x and is zero by default. A negative radius raises a ValueError. See
    the reference of :func:`box`.

    Examples
    --------
    >>> l2_ball(1.0)(torch.tensor([3.0, 4.0]), 1.0)
    tensor([0.6000, 0.8000])
    """
    owner = "l2_ball"
    radius = check_real(owner, "radius", radius, 0, may_be_inf=True)

    def measured(z: Tensor, space: Space) -> tuple[Tensor | float, Tensor, Tensor]:
        """Return the centre, and the offset of z with its norm."""
        middle = 0.0 if center is None else fitted_weight(owner, center, z, "center")
        offset = z - middle
        unit = space.unit(offset)
        return middle, offset, space.norm(offset / unit) * unit

    def in_space(space: Space) -> Proximal:
        def proximal(z: Tensor, step: float) -> Tensor:
            if radius == math.inf:
                return z
            middle, offset, distance = measured(z, space)
            least = max(radius, torch.finfo(distance.dtype).tiny)
            return middle + offset * (radius / distance.clamp(min=least))

        return proximal

    def value(x: Tensor, space: Space) -> Tensor:
        _, _, distance = measured(at_least_single(x), space)
        return indicator_value(distance / radius - 1 if radius else distance)

    return ProximalMap(in_space(Space()), None, in_space, owner="l2_ball", value_in=value)


def l1_ball(radius: float = 1.0, dim: int | Sequence[int] | None = None) -> ProximalMap:
    r"""The projection onto :math:`\sum_n |x_n| \le` radius, for real and complex x.

    All magnitudes shrink by the same number, at most to 0, until their sum is the radius. Signs and
    phases stay. With ``dim``, one axis or several, each sum over these axes is bounded. A negative
    radius raises a ValueError. When the map is called, axes that x does not have raise a
    ValueError, too.

    References
    ----------
    J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto the l1-ball
    for learning in high dimensions", ICML (2008), figure 1.

    Examples
    --------
    >>> l1_ball(2.0)(torch.tensor([3.0, -2.0, 0.5]), 1.0)
    tensor([ 1.5000, -0.5000,  0.0000])
    """
    radius = check_real("l1_ball", "radius", radius, 0, may_be_inf=True)
    dims = checked_axes("l1_ball", dim)

    def proximal(z: Tensor, step: float) -> Tensor:
        if radius == math.inf or not z.numel():
            return z
        magnitude = absolute_values(z)
        axes = axes_of("l1_ball", dims, magnitude)
        is_inside = magnitude.sum(axes, keepdim=True) <= radius
        rest = _above_level(magnitude, radius, axes)
        shrunk = z / magnitude.clamp(min=torch.finfo(magnitude.dtype).tiny) * rest
        return torch.where(is_inside, z, shrunk)

    def excess(x: Tensor) -> Tensor:
        total = x.abs().sum(axes_of("l1_ball", dims, x))
        return total / radius - 1 if radius else total

    return ProximalMap(proximal, dims, owner="l1_ball", value_in=indicator(excess))


def simplex(total: float = 1.0, dim: int | Sequence[int] | None = None) -> ProximalMap:
    """The projection onto real x with entries of at least 0 and a given sum, ``total``.

    With ``dim``, one axis or several, each sum over these axes is ``total``. A total that is not
    positive raises a ValueError. When the map is called, axes that x does not have raise a
    ValueError, and complex x raises a TypeError. See the reference of :func:`l1_ball`.

    Examples
    --------
    >>> simplex()(torch.tensor([1.0, 0.5, -3.0]), 1.0)
    tensor([0.7500, 0.2500, 0.0000])
    """
    total = check_real("simplex", "total", total, above=0)
    dims = checked_axes("simplex", dim)

    def proximal(z: Tensor, step: float) -> Tensor:
        if z.is_complex():
            raise TypeError(f"simplex: x must be real, got {z.dtype}")
        axes = axes_of("simplex", dims, z)
        if not all(z.shape[axis] for axis in axes):
            raise ValueError(
                f"simplex: x must have entries, because they must sum to {total}, got shape "
                f"{tuple(z.shape)}"
            )
        return _above_level(z, total, axes) if z.numel() else z

    def excess(x: Tensor) -> Tensor:
        if x.is_complex():
            raise TypeError(f"simplex: x must be real, got {x.dtype}")
        away = (x.sum(axes_of("simplex", dims, x)) / total - 1).abs()
        return torch.cat([away.flatten(), -x.flatten() / total])

    return ProximalMap(proximal, dims, owner="simplex", value_in=indicator(excess))


def _above_level(x: Tensor, total: float, axes: tuple[int, ...]) -> Tensor:
    """Return max(0, entries - level) with the level for which the sums have a given value."""
    last_axes = tuple(range(-len(axes), 0))
    moved = x.movedim(axes, last_axes) if axes else x.unsqueeze(-1)
    flat = moved.flatten(-max(len(axes), 1))
    # Less the highest entry: if it is large, the total would be lost in its rounding.
    below = flat - flat.amax(-1, keepdim=True)
    falling = below.sort(-1, descending=True).values
    counts = torch.arange(1, flat.shape[-1] + 1, device=x.device)
    levels = (falling.cumsum(-1) - total) / counts
    last = (falling > levels).sum(-1, keepdim=True).clamp(min=1) - 1
    above = (below - levels.gather(-1, last)).clamp(min=0).reshape(moved.shape)
    return above.movedim(last_axes, axes) if axes else above.squeeze(-1)

r"""Proximal maps :math:`\mathrm{prox}_{t g}(z) = \arg\min_x g(x) + |x - z|^2 / 2t`.

A proximal map is any function of z and of the step t. Here are those that are used every day.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from .._kernels._tracing import is_recorded
from ._batched_vectors import BatchedVectors
from ._checks import check_callable, checked_number
from ._precision import applied_in_half, narrowed, widened
from ._vectors import is_moderate, norm, unit_of

Proximal: TypeAlias = Callable[[Tensor, float], Tensor]
"""A proximal map: a function of a tensor z and a step t that returns a tensor like z."""


def soft_threshold(weight: float | Tensor = 1.0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \sum_n w_n |x_n|`, for real and complex x.

    Magnitudes shrink by t w, down to 0; signs and phases stay.

    Parameters
    ----------
    weight : float or Tensor
        w, at least 0; a tensor is broadcast to x.

    Raises
    ------
    ValueError
        If a weight is negative.

    References
    ----------
    I. Daubechies, M. Defrise and C. De Mol, "An iterative thresholding algorithm for linear
    inverse problems with a sparsity constraint", Communications on Pure and Applied Mathematics
    57 (2004), 1413-1457.

    Examples
    --------
    >>> soft_threshold(2.0)(torch.tensor([3.0, -5.0, 1.0]), 1.0)
    tensor([ 1., -3.,  0.])
    >>> soft_threshold()(torch.tensor([3 + 4j]), 2.5)
    tensor([1.5000+2.j])
    """
    weight = _checked_weight("soft_threshold", weight)

    def proximal(z: Tensor, step: float) -> Tensor:
        wide = widened(z)
        size = wide.abs()
        rest, tiny = size - step * weight, torch.finfo(size.dtype).tiny
        if is_recorded(rest):
            return narrowed(wide * (rest.clamp(min=0) / size.clamp(min=tiny)), z.dtype)
        return narrowed(wide * rest.clamp_(min=0).div_(size.clamp_(min=tiny)), z.dtype)

    return proximal


def box(lower: float = -math.inf, upper: float = math.inf) -> Proximal:
    """The nearest point of which all entries are between two real numbers; x is real.

    Parameters
    ----------
    lower, upper : float
        ``box(0)`` are the numbers that are not negative.

    Raises
    ------
    ValueError
        If lower is above upper.
    TypeError
        When called with complex numbers.

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

    Parameters
    ----------
    radius : float
        At least 0.
    center : Tensor, optional
        Of the shape of x; zero by default.

    Raises
    ------
    ValueError
        If the radius is negative.

    References
    ----------
    N. Parikh and S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
    (2014), chapter 6.

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


def l2_squared(weight: float | Tensor = 1.0, center: Tensor | float = 0.0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \frac12 \sum_n w_n |x_n - c_n|^2`.

    Parameters
    ----------
    weight : float or Tensor
        w, at least 0; a tensor is broadcast to x.
    center : Tensor or float
        c

    Raises
    ------
    ValueError
        If a weight is negative.

    References
    ----------
    N. Parikh and S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
    (2014), chapter 6.

    Examples
    --------
    >>> l2_squared(1.0, torch.tensor([4.0]))(torch.tensor([0.0]), 1.0)
    tensor([2.])
    """
    weight = _checked_weight("l2_squared", weight)

    def proximal(z: Tensor, step: float) -> Tensor:
        scaled = step * weight
        return narrowed((widened(z) + scaled * center) / (1 + scaled), z.dtype)

    return proximal


def no_penalty() -> Proximal:
    """The proximal map of g = 0: z itself.

    Examples
    --------
    >>> no_penalty()(torch.tensor([2.0]), 1.0)
    tensor([2.])
    """
    return lambda z, step: z


def conjugate(proximal: Proximal) -> Proximal:
    r"""The proximal map of the convex conjugate :math:`g^*`, by the identity of Moreau.

    Parameters
    ----------
    proximal : function
        Of a convex g.

    References
    ----------
    N. Parikh and S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
    (2014), section 2.5.

    Examples
    --------
    The conjugate of the 1-norm keeps magnitudes within 1:

    >>> conjugate(soft_threshold())(torch.tensor([3.0, -0.5]), 7.0)
    tensor([ 1.0000, -0.5000])
    """
    return lambda z, step: torch.sub(z, proximal(z / step, 1 / step), alpha=step)


def checked_proximal(owner: str, name: str, proximal: Proximal, dtype: torch.dtype) -> Proximal:
    """Return a function of z and t for tensors in single precision where the dtype is half.

    Raises
    ------
    TypeError
        If it cannot be called with two arguments, or makes a proximal map and was not called.
    """
    check_callable(owner, name, proximal)
    given: object = proximal
    for factory in (soft_threshold, box, l2_ball, l2_squared, no_penalty, conjugate):
        if given is factory:
            arguments = "" if factory is no_penalty else "..."
            raise TypeError(
                f"{owner}: {name} must be a function of z and t, got {factory.__name__}, which "
                f"must be called to make one: {factory.__name__}({arguments})"
            )
    with contextlib.suppress(ValueError):  # of a function that does not say what it takes
        try:
            inspect.signature(proximal).bind(None, None)
        except TypeError as error:
            raise TypeError(
                f"{owner}: {name} must be a function of z and t, got {proximal!r}: {error}"
            ) from None
    return applied_in_half(owner, proximal, dtype, name)


def in_moderate_unit(owner: str, y: Tensor, proximal: Proximal) -> tuple[float, Proximal]:
    """Return a unit in which squares of y are within the range of its dtype, and the map in it.

    The unit is 1 for all y that are not extreme, and a power of two for the others. What is to
    be minimised is then the same function of x in another unit, to the last bit.
    """
    unit = unit_of(owner, y)
    if is_moderate(unit):
        return 1.0, proximal
    return unit, lambda z, step: proximal(z * unit, step) / unit


def _checked_weight(owner: str, weight: float | Tensor) -> float | Tensor:
    if not isinstance(weight, Tensor):
        return checked_number(owner, "weight", weight)
    if weight.is_complex() or not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError(f"{owner}: weight must be at least 0 and finite, got {weight}")
    return widened(weight)

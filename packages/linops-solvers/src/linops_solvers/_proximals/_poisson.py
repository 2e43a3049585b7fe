"""The proximal map of the negative logarithm of a Poisson likelihood."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linops_core.siblings import check_real

from .._shared._precision import at_least_single
from ._proximal import ProximalMap, fitted_weight, is_infinite, sum_over_parts


def poisson_likelihood(counts: float | Tensor, background: float | Tensor = 0.0) -> ProximalMap:
    r"""The proximal map of the Kullback-Leibler divergence of counts y from x + b,

    .. math:: g(x) = \sum_n (x_n + b_n) - y_n + y_n \log \frac{y_n}{x_n + b_n} .

    This is the negative log-likelihood of Poisson counts with the mean x + b, up to a constant: it
    is 0 if the mean is y. It is infinite if a mean is negative, or 0 where there are counts. The
    map is, with :math:`v = z + b - t`,

    .. math:: \mathrm{prox}_{t g}(z) = \tfrac12 \bigl(v + \sqrt{v^2 + 4 t y}\bigr) - b .

    With ``pdhg(A, poisson_likelihood(y), ...)``, x is an image A x of the unknown, so b is what the
    detector counts without it: scattered and stray light, random coincidences, dark counts.

    Parameters
    ----------
    counts : float or Tensor
        y, real, at least 0 and finite, broadcast to x. Not necessarily integers.
    background : float or Tensor
        b, real, at least 0 and finite, broadcast to x.

    Raises
    ------
    TypeError
        If counts or the background are complex; when the map is called, if x is not real.
    ValueError
        If counts or the background are negative; when the map is called, if they do not fit x.

    References
    ----------
    P. L. Combettes and J.-C. Pesquet, "A Douglas-Rachford splitting approach to nonsmooth convex
    variational signal recovery", IEEE Journal of Selected Topics in Signal Processing 1 (2007),
    564-574, table 1.

    Examples
    --------
    >>> g = poisson_likelihood(torch.tensor([0.0, 6.0]))
    >>> g(torch.tensor([3.0, 2.0]), 1.0).round(decimals=3)
    tensor([2., 3.])
    >>> g.value(torch.tensor([2.0, 6.0]))
    tensor(2.)
    """
    owner = "poisson_likelihood"
    counts = checked_counts(owner, "counts", counts)
    background = checked_counts(owner, "background", background)

    def fitted(x: Tensor) -> tuple[Tensor, float | Tensor]:
        if x.is_complex():
            raise TypeError(f"{owner}: x must be real, got {x.dtype}; give a real x, as x.real")
        y = fitted_weight(owner, counts, x, "counts")
        y = y if isinstance(y, Tensor) else x.new_full((), y)
        return y, fitted_weight(owner, background, x, "background")

    def proximal(z: Tensor, step: float) -> Tensor:
        y, b = fitted(z)
        if is_infinite(step) or (not isinstance(step, Tensor) and step > torch.finfo(z.dtype).max):
            return y - b + torch.zeros_like(z)
        v = z + b - step
        unit = torch.maximum(v.detach().abs(), 2 * step**0.5 * y.detach().sqrt())
        # Derivatives would overflow for subnormal numbers, which are lost in rounding.
        is_lost = unit < torch.finfo(unit.dtype).tiny
        # In this unit, squares are in range.
        safe = torch.where(is_lost, 1, unit)
        scaled = v / safe
        # Divided first, because counts over a small unit overflow, and the times 0 are NaN.
        ratio = 2 * step**0.5 * torch.ones_like(safe) / safe
        root = torch.where(is_lost, 1, scaled.square() + ratio * y * ratio).sqrt()
        large = (v + torch.where(is_lost, v.abs(), unit * root)) / 2
        # The first form cancels if v is negative.
        is_small = (v < 0) & ~is_lost
        small = y * (ratio * step**0.5) / torch.where(is_small, root - scaled, 1)
        return torch.where(is_small, small, large) - b

    def value(x: Tensor) -> Tensor:
        y, b = fitted(x)
        return divergence(y, x + b)

    return ProximalMap(proximal, owner=owner, value_in=sum_over_parts(value))


def checked_counts(owner: str, name: str, given: float | Tensor) -> float | Tensor:
    """Return real numbers in at least single precision; none may be negative or infinite."""
    if not isinstance(given, Tensor):
        return check_real(owner, name, given, 0)
    given = at_least_single(given)
    if given.is_complex():
        raise TypeError(f"{owner}: {name} must be real, got {given.dtype}; give real counts")
    if not bool(((given >= 0) & given.isfinite()).all()):
        raise no_counts(owner, name, float(given.min()))
    return given


def no_counts(owner: str, name: str, least: float) -> ValueError:
    """Return the error for numbers that are not counts."""
    return ValueError(
        f"{owner}: {name} must be at least 0 and finite, got {least:.6g}; if a background was "
        "subtracted, give the numbers as they were counted, and the background as background="
    )


def divergence(y: Tensor, mean: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of counts from their mean, as one number."""
    has_counts = y > mean * torch.finfo(mean.dtype).tiny  # else the quotient overflows
    excess = torch.where(has_counts, (mean - y) / torch.where(has_counts, y, 1), 0)
    # y (d - log(1 + d)) for mean = y (1 + d): the terms of order d do not cancel in large counts.
    terms = torch.where(has_counts, y * (excess - excess.log1p()), mean - y)
    return torch.where(mean < 0, math.inf, terms).sum()

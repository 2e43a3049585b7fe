"""Proximal maps of squares."""

from __future__ import annotations

import torch
from torch import Tensor

from ._proximal import (
    ProximalMap,
    checked_weight,
    fitted_weight,
    is_infinite,
    squared_magnitudes,
    sum_over_parts,
)


def l2_squared(weight: float | Tensor = 1.0, center: Tensor | float = 0.0) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = \frac12 \sum_n w_n |x_n - c_n|^2`.

    The weight w and the centre c may be tensors, which are broadcast to x. A negative weight raises
    a ValueError. See the reference of :func:`box`.

    Examples
    --------
    >>> import torch
    >>> l2_squared(1.0, torch.tensor([4.0]))(torch.tensor([0.0]), 1.0)
    tensor([2.])
    """
    weight = checked_weight("l2_squared", weight)

    def proximal(z: Tensor, step: float) -> Tensor:
        fitted = fitted_weight("l2_squared", weight, z)
        middle = fitted_weight("l2_squared", center, z, "center")
        if is_infinite(step):
            return torch.where(torch.as_tensor(fitted > 0, device=z.device), middle, z)
        rate = step * fitted
        if isinstance(rate, Tensor):  # in range, because infinity over itself is NaN
            rate = rate.clamp(max=torch.finfo(rate.dtype).max)
        return z / (1 + rate) + middle * (rate / (1 + rate))

    def value(x: Tensor) -> Tensor:
        squares = squared_magnitudes(x - fitted_weight("l2_squared", center, x, "center"))
        return (fitted_weight("l2_squared", weight, squares) * squares).sum() / 2

    return ProximalMap(proximal, owner="l2_squared", value_in=sum_over_parts(value))


def no_penalty() -> ProximalMap:
    """The proximal map of g = 0: z itself.

    Examples
    --------
    >>> import torch
    >>> no_penalty()(torch.tensor([2.0]), 1.0)
    tensor([2.])
    """
    zero = sum_over_parts(lambda x: x.abs().new_zeros(()))
    return ProximalMap(lambda z, step: z, owner="no_penalty", value_in=zero)

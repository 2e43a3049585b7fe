"""Proximal maps that shrink magnitudes, of entries and of groups of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..._kernels._tracing import is_recorded
from .._shared._precision import narrowed, widened
from .._shared._vectors import BatchedVectors
from ._proximal import Proximal, check_argument, checked_weight, fitted_weight


def soft_threshold(weight: float | Tensor = 1.0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \sum_n w_n |x_n|`, for real and complex x.

    Magnitudes shrink by t w, down to 0; signs and phases stay, and so does the dtype of x.

    Parameters
    ----------
    weight : float or Tensor
        w, broadcast to x.

    Raises
    ------
    TypeError
        In a step, if x has integers.
    ValueError
        If a weight is below 0; in a step, if it does not fit.

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
    owner = "soft_threshold"
    weight = checked_weight(owner, weight)

    def proximal(z: Tensor, step: float) -> Tensor:
        check_argument(owner, z)
        wide = widened(z)
        size = wide.abs()
        rest = size - step * fitted_weight(owner, weight, size)
        tiny = torch.finfo(size.dtype).tiny
        if is_recorded(rest):
            return narrowed(wide * (rest.clamp(min=0) / size.clamp(min=tiny)), z.dtype)
        return narrowed(wide * rest.clamp_(min=0).div_(size.clamp_(min=tiny)), z.dtype)

    return proximal


def group_soft_threshold(weight: float | Tensor = 1.0, dim: int | Sequence[int] = 0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \sum_j w_j |x_j|_2`, the sum of the norms of groups.

    The entries of a group are those along ``dim``: with 0, the axis of the components of a
    gradient, this is isotropic total variation. Norms shrink by t w, down to 0; directions stay.
    x is real or complex, and its dtype stays.

    Parameters
    ----------
    weight : float or Tensor
        Of the groups: broadcast to the shape of x with 1 for each axis of ``dim``.
    dim : int or sequence of int
        The axis or axes of a group.

    Raises
    ------
    TypeError
        If an axis is no integer; in a step, if x has integers.
    ValueError
        If a weight is below 0; in a step, if x has no such axes or the weight does not fit.

    References
    ----------
    M. Yuan and Y. Lin, "Model selection and estimation in regression with grouped variables",
    Journal of the Royal Statistical Society B 68 (2006), 49-67.

    Examples
    --------
    >>> group_soft_threshold(2.5)(torch.tensor([[3.0, 0.0], [4.0, 2.0]]), 1.0)
    tensor([[1.5000, 0.0000],
            [2.0000, 0.0000]])
    """
    owner = "group_soft_threshold"
    weight = checked_weight(owner, weight)
    dims = tuple(dim) if isinstance(dim, Iterable) else (dim,)
    if not dims or not all(isinstance(each, int) and not isinstance(each, bool) for each in dims):
        raise TypeError(f"{owner}: dim must be one or several integers, got {dim!r}")

    def proximal(z: Tensor, step: float) -> Tensor:
        check_argument(owner, z)
        wide = widened(z)
        axes = {each + z.ndim * (each < 0) for each in dims}
        if len(axes) < len(dims) or not axes <= set(range(z.ndim)):
            raise ValueError(
                f"{owner}: dim must be different axes of x, got {dim!r} for shape {tuple(z.shape)}"
            )
        size = _norms_along(wide, sorted(axes))
        rest = size - step * fitted_weight(owner, weight, size)
        tiny = torch.finfo(size.dtype).tiny
        return narrowed(wide * (rest.clamp(min=0) / size.clamp(min=tiny)), z.dtype)

    return proximal


def _norms_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the norms along some axes, which stay with size 1: torch's own are far slower here.

    What is far below the precision of the largest part of x counts as that; zeros have a gradient.
    """
    unit = BatchedVectors().unit(x)  # in which squares are in the range
    parts = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    total = (parts / unit).square_().sum(list(axes), keepdim=True)
    if x.is_complex():
        total = total.sum(-1)
    size: Tensor = total.clamp(min=torch.finfo(total.dtype).tiny).sqrt() * unit
    return size

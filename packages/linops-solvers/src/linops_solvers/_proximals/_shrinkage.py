"""Proximal maps that shrink magnitudes, of entries and of groups of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_real, is_recorded

from .._shared._space import Space
from ._proximal import (
    ProximalMap,
    absolute_values,
    axes_of,
    checked_axes,
    checked_weight,
    fitted_weight,
    squared_magnitudes,
    sum_over_parts,
    weight_and_step,
)
from ._singular_values import shrunk_singular_values, singular_values


def soft_threshold(weight: float | Tensor = 1.0) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = \sum_n w_n |x_n|`, for real and complex x.

    Magnitudes shrink by t w, at most to 0. Signs, phases and the dtype of x stay.

    Parameters
    ----------
    weight : float or Tensor
        w, broadcast to x.

    Raises
    ------
    TypeError
        When the map is called, if x has integers.
    ValueError
        If a weight is negative; when the map is called, if the weight does not fit x.

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
        magnitude = absolute_values(z)
        fitted, step = weight_and_step(owner, weight, magnitude, step)
        tiny = torch.finfo(magnitude.dtype).tiny
        rest = magnitude - step * fitted
        if is_recorded(rest):
            return z * (rest.clamp(min=0) / magnitude.clamp(min=tiny))
        rest.clamp_(min=0).div_(magnitude.clamp_(min=tiny))
        del magnitude  # or it would be in memory beside the result
        return z * rest if z.is_complex() else rest.mul_(z)

    def value(x: Tensor) -> Tensor:
        magnitude = absolute_values(x)
        return (fitted_weight(owner, weight, magnitude) * magnitude).sum()

    return ProximalMap(proximal, owner=owner, value_in=sum_over_parts(value))


def group_soft_threshold(weight: float | Tensor = 1.0, dim: int | Sequence[int] = 0) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = \sum_j w_j |x_j|_2`, the sum of the norms of groups.

    A group has the entries along ``dim``. With ``dim=0``, the axis of the components of a gradient,
    this is isotropic total variation. Norms shrink by t w, at most to 0; directions stay. x is real
    or complex, and its dtype stays.

    Parameters
    ----------
    weight : float or Tensor
        Weights of the groups, broadcast to the shape of x with 1 for each axis of ``dim``.
    dim : int or sequence of int
        The axis or axes of a group.

    Raises
    ------
    TypeError
        If an axis is not an integer; when the map is called, if x has integers.
    ValueError
        If a weight is negative; when the map is called, if x has no such axes or the weight does
        not fit.

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
    dims = checked_axes(owner, dim)

    def proximal(z: Tensor, step: float) -> Tensor:
        norms = _norms_along(z, axes_of(owner, dims, z))
        fitted, step = weight_and_step(owner, weight, norms, step)
        rest = norms - step * fitted
        tiny = torch.finfo(norms.dtype).tiny
        return z * (rest.clamp(min=0) / norms.clamp(min=tiny))

    def value(x: Tensor) -> Tensor:
        norms = _norms_along(x, axes_of(owner, dims, x))
        return (fitted_weight(owner, weight, norms) * norms).sum()

    return ProximalMap(proximal, dims, owner=owner, value_in=sum_over_parts(value))


def l0(weight: float | Tensor = 1.0) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = \sum_n w_n [x_n \ne 0]`, for real and complex x.

    Entries of magnitude :math:`\sqrt{2 t w}` or less become 0, the others stay. g is not convex.
    With it, ``proximal_gradient`` finds a local minimum (iterative hard thresholding). The other
    solvers and :func:`conjugate` raise a ValueError. The weight w may be a tensor, which is
    broadcast to x. A negative weight raises a ValueError.

    References
    ----------
    T. Blumensath and M. E. Davies, "Iterative thresholding for sparse approximations", Journal of
    Fourier Analysis and Applications 14 (2008), 629-654.

    Examples
    --------
    >>> l0(0.5)(torch.tensor([3.0, -0.9, 1.1]), 1.0)
    tensor([3.0000, 0.0000, 1.1000])
    """
    weight = checked_weight("l0", weight)

    def proximal(z: Tensor, step: float) -> Tensor:
        fitted, step = weight_and_step("l0", weight, z, step)
        squared = torch.as_tensor(2 * step * fitted, dtype=z.dtype.to_real(), device=z.device)
        return torch.where(z.abs() <= squared.sqrt(), 0, z)  # NaN is not <=, so it stays

    def value(x: Tensor) -> Tensor:
        return (fitted_weight("l0", weight, x) * (x != 0).to(x.dtype.to_real())).sum()

    return ProximalMap(proximal, is_convex=False, owner="l0", value_in=sum_over_parts(value))


def huber(weight: float | Tensor = 1.0, delta: float = 1.0) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = \sum_n w_n h(|x_n|)`, for real and complex x.

    h is the function of Huber: :math:`h(s) = s^2 / 2` up to :math:`\delta` and
    :math:`\delta s - \delta^2 / 2` above. Small entries shrink as in :func:`l2_squared`, large ones
    by :math:`t w \delta`. The weight w may be a tensor, which is broadcast to x. A negative weight,
    or a delta that is not positive, raises a ValueError.

    References
    ----------
    P. J. Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35
    (1964), 73-101.

    Examples
    --------
    >>> huber(1.0, delta=2.0)(torch.tensor([3.0, -10.0]), 1.0)
    tensor([ 1.5000, -8.0000])
    """
    weight = checked_weight("huber", weight)
    delta = check_real("huber", "delta", delta, above=0)

    def proximal(z: Tensor, step: float) -> Tensor:
        fitted, step = weight_and_step("huber", weight, z, step)
        scaled = step * fitted
        range_of = torch.finfo(z.dtype)
        # In the range of the dtype, because the derivative of a branch not taken must not be NaN.
        ratio = (absolute_values(z) / max(delta, range_of.tiny)).clamp(min=1, max=range_of.max)
        return z * (1 - scaled / ratio).clamp(min=1 / (1 + scaled))

    def value(x: Tensor) -> Tensor:
        magnitude = absolute_values(x)
        each = torch.where(
            magnitude <= delta, squared_magnitudes(x) / 2, delta * (magnitude - delta / 2)
        )
        return (fitted_weight("huber", weight, magnitude) * each).sum()

    return ProximalMap(proximal, owner="huber", value_in=sum_over_parts(value))


def nuclear_norm(weight: float = 1.0, dim: Sequence[int] = (-2, -1)) -> ProximalMap:
    r"""The proximal map of the sum of the singular values of matrices, times a weight.

    Singular values shrink by t w, at most to 0. Singular vectors stay. x is real or complex. The
    map has a derivative also where singular values are zero or equal; second derivatives raise a
    RuntimeError.

    Parameters
    ----------
    weight : float
    dim : two integers
        The axes of the rows and of the columns. The other axes number the matrices.

    Raises
    ------
    TypeError
        If an axis is not an integer.
    ValueError
        If the weight is negative or there are not two axes; when the map is called, if x does not
        have these axes.

    References
    ----------
    J.-F. Cai, E. J. Candes and Z. Shen, "A singular value thresholding algorithm for matrix
    completion", SIAM Journal on Optimization 20 (2010), theorem 2.1.

    Examples
    --------
    >>> torch.round(nuclear_norm(1.0)(torch.diag(torch.tensor([3.0, 0.5])), 1.0), decimals=4)
    tensor([[2., 0.],
            [0., 0.]])
    """
    owner = "nuclear_norm"
    weight = check_real(owner, "weight", weight, 0)
    dims = checked_axes(owner, dim)
    if dims is None or len(dims) != 2:
        raise ValueError(f"{owner}: dim must be two axes, of rows and of columns, got {dim!r}")

    def proximal(z: Tensor, step: float) -> Tensor:
        axes = axes_of(owner, dims, z)
        fitted, step = weight_and_step(owner, weight, z, step)
        threshold = torch.as_tensor(step * fitted, dtype=z.dtype.to_real(), device=z.device)
        try:
            shrunk = shrunk_singular_values(z.movedim(axes, (-2, -1)), threshold)
        except RuntimeError as error:
            if z.isfinite().all():
                raise
            raise ArithmeticError(f"{owner}: x must be finite, got NaN or infinity") from error
        return shrunk.movedim((-2, -1), axes)

    def value(x: Tensor) -> Tensor:
        return weight * singular_values(x.movedim(axes_of(owner, dims, x), (-2, -1))).sum()

    return ProximalMap(proximal, dims, owner=owner, value_in=sum_over_parts(value))


def _norms_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the norms along some axes, which stay with size 1; those of torch are far slower.

    Norms far below the precision of the largest part of x are rounded. Zeros have a gradient.
    """
    unit = Space().unit(x)  # squares of x itself might overflow or vanish
    parts = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    total = (parts / unit).square_().sum(list(axes), keepdim=True)
    if x.is_complex():
        total = total.sum(-1)
    # Above 0, because the derivative of the root is infinite there.
    norms = total.clamp(min=torch.finfo(total.dtype).tiny).sqrt() * unit
    return torch.where(total > 0, norms, 0)

r"""Proximal maps :math:`\mathrm{prox}_{t g}(z) = \arg\min_x g(x) + |x - z|^2 / 2t`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .._algebra._identity import Identity
from .._base._linop import NamedLinop
from .._kernels._tracing import is_recorded
from ._checks import Operator, check_vector, checked_number
from ._precision import OperatorPair, applied_in_half, in_given_precision, narrowed, widened
from ._progress import Iterate, Progress
from ._vectors import BatchedVectors, is_moderate, norm, unit_of

Proximal: TypeAlias = Callable[[Tensor, float], Tensor]
"""A proximal map: a function of a tensor z and a step t that returns a tensor like z."""


def soft_threshold(weight: float | Tensor = 1.0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \sum_n w_n |x_n|`, for real and complex x.

    Magnitudes shrink by t w, down to 0; signs and phases stay. The weight w may be a tensor
    that is broadcast to x; one below 0 raises a ValueError.

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


def group_soft_threshold(weight: float | Tensor = 1.0, dim: int | Sequence[int] = 0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \sum_j w_j |x_j|_2`, the sum of the norms of groups.

    The entries of a group are those along ``dim``: with 0, the axis of the components of a
    gradient, this is isotropic total variation. Norms shrink by t w, down to 0; directions stay.
    x is real or complex.

    Parameters
    ----------
    weight : float or Tensor
        Of the groups: broadcast to the shape of x with 1 for each axis of ``dim``.
    dim : int or sequence of int
        The axis or axes of a group.

    Raises
    ------
    TypeError
        If an axis is no integer.
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
    weight = _checked_weight(owner, weight)
    dims = tuple(dim) if isinstance(dim, Iterable) else (dim,)
    if not dims or not all(isinstance(each, int) and not isinstance(each, bool) for each in dims):
        raise TypeError(f"{owner}: dim must be one or several integers, got {dim!r}")

    def proximal(z: Tensor, step: float) -> Tensor:
        wide = widened(z)
        axes = {each + z.ndim * (each < 0) for each in dims}
        if len(axes) < len(dims) or not axes <= set(range(z.ndim)):
            raise ValueError(
                f"{owner}: dim must be different axes of x, got {dim!r} for shape {tuple(z.shape)}"
            )
        size = _norms_along(wide, sorted(axes))
        given = tuple(weight.shape) if isinstance(weight, Tensor) else ()
        pairs = zip(given[::-1], reversed(size.shape), strict=False)
        if len(given) > size.ndim or any(own not in (1, length) for own, length in pairs):
            raise ValueError(
                f"{owner}: weight must be broadcast to {tuple(size.shape)}, got shape {given}"
            )
        rest, tiny = size - step * weight, torch.finfo(size.dtype).tiny
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


def in_basis(W: NamedLinop, proximal: Proximal) -> Proximal:
    r"""The proximal map of :math:`g(x) = f(W x)` for a unitary W, of that of f.

    :math:`\mathrm{prox}_{t g}(z) = W^H \mathrm{prox}_{t f}(W z)`, for an orthonormal wavelet
    transform or a Fourier transform (P. L. Combettes and J.-C. Pesquet, "Proximal splitting methods
    in signal processing", 2011, table 10.1). The result is complex where W makes z so.

    Parameters
    ----------
    W : NamedLinop
        Unitary: W.N and W.H.N are identities.
    proximal : function
        The proximal map of f, a function of coefficients and a step.

    Raises
    ------
    TypeError
        If W is no operator, or ``proximal`` no function.
    ValueError
        If W.N or W.H.N is not known to be an identity.

    Examples
    --------
    >>> from linops_core import FFT
    >>> few_waves = in_basis(FFT(1), soft_threshold(1.0))
    >>> few_waves(torch.tensor([1.0, 1.0, 1.0, 1.0]), 1.0).real
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if not isinstance(W, NamedLinop):
        raise TypeError(f"in_basis: W must be a NamedLinop, got {type(W)}")
    of_coefficients = checked_proximal("in_basis", "proximal", proximal, torch.float32)
    if not (isinstance(W.N, Identity) and isinstance(W.H.N, Identity)):
        raise ValueError(
            f"in_basis: W must be unitary, with identities as W.N and W.H.N, got {W.signature}"
        )
    return lambda z, step: W.H(of_coefficients(W(z), step))


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


def l2_squared(weight: float | Tensor = 1.0, center: Tensor | float = 0.0) -> Proximal:
    r"""The proximal map of :math:`g(x) = \frac12 \sum_n w_n |x_n - c_n|^2`.

    The weight w and the centre c may be tensors that are broadcast to x; a weight below 0 raises
    a ValueError. See the reference of :func:`box`.

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

    It is made of that of g; see section 2.5 of the reference of :func:`box`.

    Examples
    --------
    The conjugate of the 1-norm keeps magnitudes within 1:

    >>> conjugate(soft_threshold())(torch.tensor([3.0, -0.5]), 7.0)
    tensor([ 1.0000, -0.5000])
    """
    return lambda z, step: torch.sub(z, proximal(z / step, 1 / step), alpha=step)


def checked_proximal(owner: str, name: str, proximal: Proximal, dtype: torch.dtype) -> Proximal:
    """Return a map for single precision where the dtype is half; refuse what is none of z and t."""
    applied = applied_in_half(owner, proximal, dtype, name)
    given: object = proximal
    for factory in _FACTORIES:
        if given is factory:
            arguments = "" if factory is no_penalty else "..."
            raise TypeError(
                f"{owner}: {name} must be a function of z and t, got {factory.__name__}, which "
                f"must be called to make one: {factory.__name__}({arguments})"
            )
    try:
        inspect.signature(proximal).bind(None, None)
    except TypeError as error:
        wanted = f"{name} must be a function of z and t"
        raise TypeError(f"{owner}: {wanted}, got {proximal!r}: {error}") from None
    except ValueError:
        pass  # it does not say what it takes
    return applied


class PenalizedProblem:
    """|A x - y|^2 / 2 + g, in the unit of y if that is extreme, in single precision at least."""

    def __init__(
        self,
        owner: str,
        A: Operator,
        adjoint: Operator | None,
        y: Tensor,
        proximal: Proximal,
        x0: Tensor | None,
    ) -> None:
        check_vector(owner, "y", y)
        self.owner, self.dtype = owner, y.dtype
        self.A = OperatorPair(owner, A, adjoint, y.dtype)
        self.y, self.x0, self.unit = widened(y), None, 1.0
        self.proximal = given = checked_proximal(owner, "proximal", proximal, y.dtype)
        unit = unit_of(owner, self.y)
        if not is_moderate(unit):
            self.y, self.unit = self.y / unit, unit
            self.proximal = lambda z, step: given(z * unit, step) / unit
        if x0 is not None:
            check_vector(owner, "x0", x0)
            self.x0 = widened(x0) / self.unit

    def solve(self, steps: Iterator[Iterate[Tensor]], progress: Progress) -> Tensor:
        """Return the last x of the steps, in the unit and the precision of y."""
        return self._result(progress.follow(steps, self._result))

    def _result(self, x: Tensor) -> Tensor:
        return in_given_precision(self.owner, x * self.unit, self.dtype)


_FACTORIES = (
    soft_threshold,
    group_soft_threshold,
    in_basis,
    box,
    l2_ball,
    l2_squared,
    no_penalty,
    conjugate,
)


def _checked_weight(owner: str, weight: float | Tensor) -> float | Tensor:
    if not isinstance(weight, Tensor):
        return checked_number(owner, "weight", weight)
    if weight.is_complex() or not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError(f"{owner}: weight must be at least 0 and finite, got {weight}")
    return widened(weight)

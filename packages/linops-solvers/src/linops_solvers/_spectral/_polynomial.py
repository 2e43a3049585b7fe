"""Polynomials of an operator that approximate its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, overload

import torch
from torch import Tensor

from linops_core import Composite, NamedLinop
from linops_core.siblings import check_integer, check_real, own_window
from nameddim import NamedDimension

from .._shared._checks import Operator, check_square
from .._shared._precision import applied_in_half, at_least_single, in_given_precision

_NAME = "polynomial_preconditioner"
Norm: TypeAlias = Literal["l_2", "l_inf"]
Residual: TypeAlias = Callable[[int, float, float], float]


@overload
def polynomial_preconditioner(
    T: NamedLinop, degree: int, norm: Norm = "l_2", lower: float = 0.0, upper: float = 1.0
) -> NamedLinop: ...
@overload
def polynomial_preconditioner(
    T: Operator, degree: int, norm: Norm = "l_2", lower: float = 0.0, upper: float = 1.0
) -> Operator: ...
def polynomial_preconditioner(
    T: Operator, degree: int, norm: Norm = "l_2", lower: float = 0.0, upper: float = 1.0
) -> Operator:
    r"""The operator :math:`p(T) \approx T^{-1}` with the best polynomial p on an interval.

    The residual polynomial is :math:`q(\lambda) = 1 - \lambda p(\lambda)`. Between ``lower`` and
    ``upper``, "l_2" minimises :math:`\int |q(\lambda)|^2 \, d\lambda`; ``lower`` may be 0. "l_inf"
    minimises :math:`\max |q(\lambda)|`, with the solution :math:`q(\lambda) = C_{d+1}(\mu(\lambda))
    / C_{d+1}(\mu(0))` for the Chebyshev polynomial C on the interval. Both p are positive on the
    interval. So p(T) is Hermitian positive definite if T is, and can precondition
    :func:`conjugate_gradients`. It is applied by the three-term recurrence of Chebyshev
    polynomials. If the spectrum of T is within the interval, this is stable for every degree.
    Outside of the interval p grows.

    Parameters
    ----------
    T : NamedLinop or function
        Hermitian, such as ``A.N``. If T is a NamedLinop, so is the result, with the shape of T, its
        weights and its batch dimensions.
    degree : int
        Degree of p, and number of applications of T. At most six vectors are kept.
    norm : {"l_2", "l_inf"}
    lower, upper : float
        Bounds of the spectrum of T. 0 and the :func:`operator_norm` of T are always bounds.

    Raises
    ------
    ValueError
        If the norm, the degree or the interval is out of range, or if p exceeds double precision at
        this degree. "l_inf" needs lower > 0, because q(0) is always 1.

    References
    ----------
    O. G. Johnson, C. A. Micchelli and G. Paul, "Polynomial preconditioners for conjugate gradient
    calculations", SIAM Journal on Numerical Analysis 20 (1983), 362-376.

    S. S. Iyer, F. Ong, X. Cao, C. Liao, L. Daniel, J. I. Tamir and K. Setsompop, "Polynomial
    preconditioners for regularized linear inverse problems", SIAM Journal on Imaging Sciences 17
    (2024), 116-146.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> T = Diagonal(torch.tensor([1.0, 2.0, 4.0]), ("N",))
    >>> P = polynomial_preconditioner(T, 10, "l_inf", lower=1, upper=4)
    >>> torch.round(P(torch.ones(3)), decimals=3)
    tensor([1.0000, 0.5000, 0.2500])
    """
    check_integer(_NAME, "degree", degree, 0)
    if norm not in ("l_2", "l_inf"):
        raise ValueError(f'{_NAME}: norm must be "l_2" or "l_inf", got {norm!r}')
    lower = check_real(_NAME, "lower", lower, 0)
    upper = check_real(_NAME, "upper", upper, 0)
    if not lower < upper:
        raise ValueError(
            f"{_NAME}: bounds must satisfy 0 <= lower < upper, got {lower} and {upper}"
        )
    if norm == "l_inf" and not lower:
        raise ValueError(f'{_NAME}: lower must be positive for "l_inf", got {lower}')
    check_square(_NAME, T, "give A.N of an A that is not square")
    series = _inverse(_least_largest if norm == "l_inf" else _least_square, degree, lower, upper)
    if not all(map(math.isfinite, series.coefficients)):
        raise ValueError(f"{_NAME}: the degree must be lower for these bounds, got {degree}")
    return Polynomial(T, series) if isinstance(T, NamedLinop) else partial(series.applied, T)


@dataclass(frozen=True)
class ChebyshevSeries:
    """The sum of a_j C_j(mu(t)), where mu maps an interval to [-1, 1]."""

    coefficients: tuple[float, ...]
    lower: float
    upper: float

    def applied(self, T: Operator, x: Tensor) -> Tensor:
        """Return the sum for T, times x. In half precision only T is applied in half."""
        dtype = x.dtype
        T, x = applied_in_half(_NAME, T, dtype, "T"), at_least_single(x)
        center, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        total = self.coefficients[0] * x
        previous, current = x, x
        for degree, coefficient in enumerate(self.coefficients[1:], 1):
            mapped = torch.add(T(current), current, alpha=-center)
            if degree == 1:
                current = mapped / half
            else:
                previous, current = current, torch.sub(mapped * (2 / half), previous)
            total = torch.add(total, current, alpha=coefficient)
        if total.dtype == dtype:
            return total
        return in_given_precision(_NAME, total, dtype, rule="the result must be")


class Polynomial(Composite):
    """A polynomial of an operator from a space to itself."""

    def __init__(self, linop: NamedLinop, series: ChebyshevSeries) -> None:
        super().__init__(linop.shape, [linop])
        self.series = series

    @staticmethod
    def fn(linop: Polynomial, x: Tensor, /) -> Tensor:
        """Return p(T) x."""
        return linop.series.applied(linop.linops[0], x)

    @staticmethod
    def adj_fn(linop: Polynomial, x: Tensor, /) -> Tensor:
        """Return p(T^H) x, which is p(T)^H x because the coefficients are real."""
        return linop.series.applied(linop.linops[0].H, x)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced, or None when it can."""
        if dim in self.ishape and dim in self.oshape:
            return self.linops[0].why_opaque(dim)
        return "the powers of an operator need all elements that it sums over"

    @staticmethod
    def split(linop: Polynomial, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the polynomial of a tile of the operator; see :meth:`NamedLinop.split`."""
        window = own_window(linop, tile)
        T = linop.linops[0]
        return linop.with_operands([T.split(T, window)]) if window else linop

    # The adjoint holds the same operand, and is cut along the same dimensions.
    adj_split = split


def _inverse(residual: Residual, degree: int, lower: float, upper: float) -> ChebyshevSeries:
    """Return p = (1 - q) / lambda, from its values at Chebyshev nodes; q is of one degree more."""
    count = degree + 1
    center, half = (upper + lower) / 2, (upper - lower) / 2
    angles = [math.pi * (i + 0.5) / count for i in range(count)]
    nodes = [math.cos(angle) for angle in angles]
    values = [(1 - residual(count, t, -center / half)) / (center + half * t) for t in nodes]
    sums = [
        math.fsum(v * math.cos(j * angle) for v, angle in zip(values, angles, strict=True))
        for j in range(count)
    ]
    coefficients = ((2 if j else 1) / count * total for j, total in enumerate(sums))
    return ChebyshevSeries(tuple(coefficients), lower, upper)


def _least_largest(degree: int, t: float, zero: float) -> float:
    """Return at t the q with q(zero) = 1 and the smallest maximum on [-1, 1]."""
    sign = -1 if degree % 2 else 1
    # cosh(700) is near the largest number of double precision.
    return sign * math.cos(degree * math.acos(t)) / math.cosh(min(degree * math.acosh(-zero), 700))


def _least_square(degree: int, t: float, zero: float) -> float:
    """Return the q of the least mean square: the sum of (2 j + 1) P_j(zero) P_j."""
    weights = [(2 * j + 1) * value for j, value in enumerate(_legendre(degree, zero))]
    over, under = (
        sum(w * p for w, p in zip(weights, _legendre(degree, point), strict=True))
        for point in (t, zero)
    )
    return over / under


def _legendre(degree: int, x: float) -> list[float]:
    """Return P_0(x) to P_degree(x)."""
    values = [1.0, x]
    for j in range(1, degree):
        values.append(((2 * j + 1) * x * values[j] - j * values[j - 1]) / (j + 1))
    return values[: degree + 1]

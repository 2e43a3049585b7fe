"""Counts, the operator and the background that explain them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from linops_core.siblings import check_vector

from .._proximals._poisson import checked_counts, divergence, no_counts
from .._proximals._proximal import fitted_weight
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import Operator, check_finite, check_like, check_output
from .._shared._precision import OperatorPair, at_least_single
from .._shared._space import Space
from .._shared._stacked import StackedOperators, one_per_operator

Backgrounds: TypeAlias = float | Tensor | Sequence[float | Tensor]
"""Of one operator, or of each of a sequence of operators."""


class Counted:
    """Poisson counts y with the mean A x + b, for an A without negative entries."""

    def __init__(
        self,
        owner: str,
        A: Operator,
        adjoint: Operator | None,
        y: Tensor,
        background: float | Tensor,
        name: str = "",
        input_space: Space | None = None,
    ) -> None:
        check_vector(owner, f"y{name}", y)
        self.owner, self.name = owner, name
        self.y = at_least_single(y)
        b = checked_counts(owner, f"background{name}", background)
        self.background = fitted_weight(owner, b, self.y, f"background{name}")
        self.pair = OperatorPair(owner, A, adjoint, y.dtype, f"A{name}", input_space=input_space)
        largest = check_counts(owner, f"y{name}", self.pair.output, self.y)
        ones = torch.ones_like(self.y)
        seen = self.pair.adjoint(ones)
        check_keeps_real(owner, f"A{name}", seen)
        check_adjoint(self.pair, ones, seen)
        self.total_seen = float(self.pair.input.sum_of(torch.sum, seen.detach()))
        floor = self._noise(self.pair.input, f"the adjoint of A{name}, applied to ones,", seen)
        self.sensitivity = torch.where(seen > floor, seen, math.inf)
        """A^H 1, infinite where x is not seen, so that x becomes 0 there."""
        information = torch.finfo(self.y.dtype)
        smallest = information.tiny * information.eps  # below it, a bound would be 0
        self._least = max((largest or 1.0) * math.sqrt(information.tiny), smallest)

    def image(self, x: Tensor) -> tuple[Tensor, float]:
        """Return A x, and the least mean that is above its rounding and can divide y."""
        image = self.pair.forward(x)
        check_output(self.owner, self.pair, image, self.y)
        what = f"the output of A{self.name} for x >= 0"
        return image, max(self._noise(self.pair.output, what, image), self._least)

    def updated(self, x: Tensor, image: Tensor, floor: float) -> Tensor:
        """Return x / (A^H 1) * A^H (y / (A x + b)), given A x; 0 / 0 is 0."""
        back = self.pair.adjoint(self.y / (image + self.background).clamp(min=floor))
        check_like(self.owner, "the output of the adjoint", back, "x", x)
        # Rounding may make back negative. The quotient of both is in range where x over one is not.
        return (x * (back / self.sensitivity)).clamp(min=0)

    def objective(self, image: Tensor, floor: float) -> float:
        """Return the divergence of y from A x + b."""
        mean = (image + self.background).clamp(min=floor)
        return float(self.pair.output.sum_of(divergence, self.y, mean))

    @torch.no_grad()
    def check_explained(self, image: Tensor, floor: float) -> None:
        """Raise an error if there are counts where no x >= 0 makes any."""
        dark = self.y * (image + self.background <= floor)
        lost = float(self.pair.output.sum_of(torch.sum, dark))
        if lost:
            raise ValueError(
                f"{self.owner}: y{self.name} must be 0 where A x0 + background is 0, got counts "
                f"of {lost:.6g} there, which no step explains; set them to 0, or give a background"
            )

    def _noise(self, space: Space, what: str, x: Tensor) -> float:
        """Return a bound of the rounding in x >= 0, which its negative entries show.

        An operator that adds products of numbers >= 0 returns none. Convolutions by Fourier
        transforms do.
        """
        low, high = extremes(self.owner, space, x)
        if low > math.sqrt(torch.finfo(self.pair.dtype).eps) * high:
            raise ValueError(
                f"{self.owner}: {what} must not be negative, got {-low:.6g}; the entries of A "
                "must be at least 0; otherwise use pdhg with poisson_likelihood"
            )
        return 4 * low


def one_background_each(
    owner: str, background: Backgrounds, A: StackedOperators
) -> Sequence[float | Tensor]:
    """Return the background of each operator; a number is that of all."""
    if isinstance(background, (int, float)):
        return [background] * len(A.operators)
    return one_per_operator(owner, "background", cast(Backgrounds, background), A, "background")


def check_keeps_real(owner: str, name: str, image: Tensor) -> None:
    """Raise an error if an operator makes complex numbers of real ones."""
    if image.is_complex():
        raise TypeError(
            f"{owner}: {name} must be real, because counts have no phase, got {image.dtype}; "
            "give a real operator, as RealPart() @ A @ AsComplex(), or real weights"
        )


def check_counts(owner: str, name: str, space: Space, x: Tensor) -> float:
    """Return the largest entry; raise an error, on all processes, if one is negative."""
    if x.is_complex():
        raise TypeError(f"{owner}: {name} must be real, got {x.dtype}; give real counts")
    low, high = extremes(owner, space, x)
    if low:
        raise no_counts(owner, name, -low)
    return high


def extremes(owner: str, space: Space, x: Tensor) -> tuple[float, float]:
    """Return max(-x, 0) and max(x, 0); of a vector in parts the sums of those of the parts."""
    low, high = space.sum_of(_extremes, x.detach()).tolist()
    return check_finite(owner, low), check_finite(owner, high)


def _extremes(x: Tensor) -> Tensor:
    if not x.numel():
        return x.new_zeros(2)
    low, high = torch.aminmax(x)
    return torch.stack([-low, high]).clamp(min=0)

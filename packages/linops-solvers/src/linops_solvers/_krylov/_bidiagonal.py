"""Golub-Kahan bidiagonalisation, one vector of each space at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linops_core.siblings import host_numbers

from .._shared._adjoint_check import adjoint_rounding
from .._shared._checks import check_finite, check_like, check_scale
from .._shared._precision import OperatorPair
from .._shared._space import Space


class Bidiagonalization:
    """Unit vectors with beta u' = A v - alpha u and alpha' v' = A^H u' - beta v (Golub and Kahan).

    The first u overwrites y. A step waits for the device once. The unit of A is a power of two for
    which the first A v is near 1, so it causes no rounding.
    """

    def __init__(self, A: OperatorPair, y: Tensor) -> None:
        self.A, self.u, self.dtype = A, y, A.dtype
        beta = _normalize(self.u, A.output)
        self.v = A.adjoint(self.u).clone()
        if self.v.is_complex() and A.is_complex_linear:  # A makes complex u of complex v
            self.u = self.u.to(self.u.dtype.to_complex())
        self.unit = A.input.unit_of(A.owner, self.v, is_output=True)
        check_scale(A.owner, self.unit, self.dtype)
        alpha = _normalize(self.v.div_(self.unit), A.input)
        self.alpha, self.beta = self._numbers(alpha, beta)
        self.norm = 0.0
        """The largest |A v| so far: it is at most the norm of A, and soon near it."""
        self.unseen = 0.0
        """|A^H u| / |A| of the first u, where alpha is set to 0 because that is rounding."""
        self.image: Tensor | None = None
        """A v, where it is known already."""
        if self.alpha:
            self.image = A.forward(self.v)
            check_like(A.owner, "the output of A", self.image, "y", self.u)
            unit = A.output.unit_of(A.owner, self.image, is_output=True)
            check_scale(A.owner, unit, self.dtype)
            self.alpha, self.unit = self.alpha * (self.unit / unit), unit
            of_adjoint = A, self.u, self.v, self.alpha, self.image / unit, unit
            rounding, bound_of_A = adjoint_rounding(*of_adjoint)
            if self.alpha <= rounding:  # A^H u is only rounding
                self.unseen, self.alpha = self.alpha / (bound_of_A or 1.0), 0.0

    def step(self, *others: Tensor) -> list[float]:
        """Go on to the next u and v; return the norms of other vectors of the same reduction."""
        image = self.A.forward(self.v) if self.image is None else self.image
        self._move(self.u, -self.alpha, image, "A", "y")
        self.image = None
        del image  # freed here, because the result of the adjoint needs the memory
        beta = _normalize(self.u, self.A.output)
        self._move(self.v, -beta, self.A.adjoint(self.u), "the adjoint", "that before")
        alpha, *norms = self.A.input.measured([], [self.v, *others])
        self.v.div_(torch.where(alpha > 0, alpha, 1))
        before = self.alpha
        self.alpha, self.beta, *measured = self._numbers(alpha, beta, *norms)
        self.norm = max(self.norm, math.hypot(before, self.beta))
        return measured

    def _move(self, x: Tensor, factor: Tensor | float, image: Tensor, name: str, kind: str) -> None:
        """Multiply x and add the image, in place."""
        check_like(self.A.owner, f"the output of {name}", image, kind, x)
        x.mul_(factor).add_(image, alpha=1 / self.unit)

    def _numbers(self, *scalars: Tensor) -> list[float]:
        numbers = host_numbers(*scalars)
        return [check_finite(self.A.owner, number, self.u.dtype) for number in numbers]


def _normalize(x: Tensor, space: Space) -> Tensor:
    """Divide x by its norm, in place, and return the norm; zeros stay."""
    norm = space.norm(x)
    x.div_(torch.where(norm > 0, norm, 1))
    return norm


def rotation(a: float, b: float) -> tuple[float, float, float]:
    """Return c, s and r with c a + s b = r, s a - c b = 0 and c^2 + s^2 = 1."""
    r = math.hypot(a, b)
    return (a / r, b / r, r) if r else (1.0, 0.0, 0.0)

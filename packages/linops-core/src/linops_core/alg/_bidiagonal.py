"""The bidiagonalisation of Golub and Kahan, one vector of each space at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._vectors import Operator, check_like, finite, norm


class Bidiagonalization:
    r"""Unit vectors with :math:`\beta u' = A v - \alpha u`, :math:`\alpha' v' = A^H u' - \beta v`.

    Keeps one u and one v, and waits for the device once in a step.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    A, adjoint : function
    y : Tensor
        The first u, times the first beta; it is overwritten.

    References
    ----------
    G. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix",
    SIAM Journal on Numerical Analysis 2 (1965), section 4.
    """

    def __init__(self, owner: str, A: Operator, adjoint: Operator, y: Tensor) -> None:
        self.owner, self.A, self.adjoint = owner, A, adjoint
        self.u = y
        beta = _normalize(self.u)
        self.v = adjoint(self.u).clone()
        alpha = _normalize(self.v)
        self.alpha, self.beta = self._numbers(alpha, beta)

    def step(self, *others: Tensor) -> list[float]:
        """Go on to the next u and v; return the norms of other vectors on this occasion."""
        self._move(self.u, -self.alpha, self.A(self.v), "A", "y")
        beta = _normalize(self.u)
        self._move(self.v, -beta, self.adjoint(self.u), "the adjoint", "that before")
        alpha = _normalize(self.v)
        norms = map(norm, others)
        self.alpha, self.beta, *found = self._numbers(alpha, beta, *norms)
        return found

    def _move(self, x: Tensor, factor: Tensor | float, image: Tensor, name: str, kind: str) -> None:
        """Multiply x and add the image, in place."""
        check_like(self.owner, f"the output of {name}", image, kind, x)
        x.mul_(factor).add_(image)

    def _numbers(self, *scalars: Tensor) -> list[float]:
        return [finite(self.owner, value) for value in torch.stack(scalars).tolist()]


def _normalize(x: Tensor) -> Tensor:
    """Divide x by its norm, in place, and return the norm; zeros stay."""
    length = norm(x)
    x.div_(torch.where(length > 0, length, 1))
    return length


def rotation(a: float, b: float) -> tuple[float, float, float]:
    """Return c, s and r with c a + s b = r, s a - c b = 0 and c^2 + s^2 = 1."""
    r = math.hypot(a, b)
    return (a / r, b / r, r) if r else (1.0, 0.0, 0.0)

"""The complex conjugate of an operator."""

from __future__ import annotations

from torch import Tensor

from .._base._calls import apply_with_lazy_conjugate
from .._base._linop import NamedLinop
from ._wrapper import Wrapper


class Conjugate(Wrapper):
    r"""The complex conjugate :math:`\bar A: x \mapsto \overline{A \bar x}`, lazy as torch's."""

    @staticmethod
    def fn(linop: Conjugate, x: Tensor, /) -> Tensor:
        """Return conj(A conj(x))."""
        return apply_with_lazy_conjugate(linop.linop, x.conj()).conj()

    def conj(self) -> NamedLinop:
        """Return A."""
        return self.linop

    def own_normal(self) -> NamedLinop:
        """Return the conjugate of A's normal, so that a closed form is found."""
        return self.linop.normal().conj()

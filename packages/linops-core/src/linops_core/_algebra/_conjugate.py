"""The complex conjugate of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from nameddim import NamedDimension

from .._base._linop import NamedLinop
from .._base._slicing import tile_of
from .._base._support import Supports, support_of_one
from ._composite import Composite


class Conjugate(Composite):
    r"""The complex conjugate :math:`\bar A: x \mapsto \overline{A \bar x}`.

    It is what ``A.conj()`` makes of an operator that does not know its own conjugate, and it has
    A's weights. The result is a lazy conjugate, as that of :meth:`torch.Tensor.conj`.

    Parameters
    ----------
    linop : NamedLinop
        A.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> Conjugate(Diagonal(torch.tensor([1j]), ("N",)))(torch.tensor([1.0 + 0j])).resolve_conj()
    tensor([0.-1.j])
    """

    _is_side_by_side = True

    def __init__(self, linop: NamedLinop) -> None:
        super().__init__(linop.shape, [linop])
        self._is_endomorphism = linop.is_endomorphism

    @property
    def linop(self) -> NamedLinop:
        """The operator A."""
        return self.linops[0]

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return conj(A conj(x))."""
        return linop.linop(x.conj()).conj()  # type: ignore[no-any-return]

    adj_fn = fn  # the operand of an adjoint is an adjoint

    def adjoint(self) -> NamedLinop:
        """Return the conjugate of the adjoint."""
        return self.with_operands([self.linop.H], self.shape.H)

    def conj(self) -> NamedLinop:
        """Return A."""
        return self.linop

    def own_normal(self) -> NamedLinop:
        """Return the conjugate of A's normal, so that a closed form is found."""
        return self.linop.normal().conj()

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: what A says."""
        return self.linop.why_opaque(dim)

    support = support_of_one

    def _supports(self, dims: Iterable[NamedDimension]) -> Supports:
        """Return the supports of A."""
        return self.linop._supports(dims)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the conjugate of the part of A; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        if not window:
            return linop  # type: ignore[no-any-return]
        return linop.with_operands([tile_of(linop.linop, window)])  # type: ignore[no-any-return]

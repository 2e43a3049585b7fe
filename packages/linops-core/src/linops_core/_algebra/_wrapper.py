"""Operators around another operator, and its complex conjugate, which is one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._base._arithmetic import rules
from .._base._calls import apply_with_lazy_conjugate
from .._base._cutting import tiles_at
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._swapped_functions import of_adjoint
from .._base._tile import Supports, Window
from ._composite import Composite, operands_without_fftshift, supports_of
from ._fitting import fitted_input
from ._same_space import check_operands


class Wrapper(Composite):
    """An operator around another one, its operand, with the same roles of dimensions.

    A subclass overrides ``fn``, which finds the operand as ``linop.linop``. For the adjoint, the
    conjugate, a tile or the normal of a wrapper around A, ``linop.linop`` is the adjoint, the
    conjugate, a tile or the normal of A. ``adj_fn`` follows from this.

    Parameters
    ----------
    linop : NamedLinop
    shape : NamedShape, optional
        By default the shape of the operand.
    name : str, optional

    Raises
    ------
    TypeError
        If ``linop`` is not an operator.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> class Traced(Wrapper):
    ...     "An operator that says when it is applied."
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         print(f"{linop.linop.name} is applied")
    ...         return linop.linop(x)
    >>> Traced(Diagonal(torch.tensor([1j]), ("N",))).H(torch.tensor([1.0]))
    Diagonal is applied
    tensor([0.-1.j])
    """

    _is_side_by_side = True

    def __init__(
        self, linop: NamedLinop, shape: NamedShape | None = None, name: str | None = None
    ) -> None:
        check_operands(type(self).__name__, [linop])
        super().__init__(linop.shape if shape is None else shape, [linop], name)
        self._is_endomorphism = linop.is_endomorphism

    @property
    def linop(self) -> NamedLinop:
        """The operand."""
        return self._operand(0)

    adj_fn = staticmethod(of_adjoint)
    adjoint = Composite._adjoint_of_operands
    conj = Composite._conj_of_operands

    def _supports(self, *dims: NamedDimension) -> Supports:
        return supports_of(self.linop, dims)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the wrapper around the operand for an input with these dimensions."""
        sides = (self.ishape, self.oshape)
        fitted = fitted_input(self.linop, dims)
        if fitted is None or sides != (self.linop.ishape, self.linop.oshape):
            return None
        return self.with_operands([fitted], NamedShape(fitted.ishape, fitted.oshape))

    def own_normal(self) -> NamedLinop:
        """Return the wrapper around the normal operator."""
        normal = self.linop.N
        return self.with_operands([normal], normal.shape)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced, according to the operand."""
        return self.linop.why_opaque(dim)

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the wrapper around the tile of the operand at each window."""
        return self.with_operands_of_each([tile] for tile in tiles_at(self.linop, windows))


without_fftshift.register(Wrapper)(operands_without_fftshift)


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


rules.conjugate = Conjugate

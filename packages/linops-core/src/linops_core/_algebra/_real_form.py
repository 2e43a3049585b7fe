"""Operators on real and imaginary parts."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from nameddim import ND, NamedDimension, NamedShape

from .._base._dimensions import SIDES, Side, dims_of
from .._base._linop import NamedLinop
from .._base._places import COMPOSITION, EqualPlaces
from .._base._swapped_functions import of_adjoint
from .._kernels._dtype import as_parts, imag_part, of_parts
from ._composite import Composite
from ._same_space import check_operands


class RealForm(Composite):
    r"""An operator A on real and imaginary parts, :math:`(\mathrm{Re}\, x, \mathrm{Im}\, x)`.

    It returns :math:`(\mathrm{Re}\, A x, \mathrm{Im}\, A x)`. It is linear over the complex numbers
    even if A is linear over the reals only, so it has a matrix and a trace. For a complex matrix M
    its matrix is :math:`\begin{pmatrix} \mathrm{Re} M & -\mathrm{Im} M \\ \mathrm{Im} M &
    \mathrm{Re} M \end{pmatrix}`. Its dimensions cannot be sliced; slice A instead.

    Parameters
    ----------
    linop : NamedLinop
        A.
    dim : dimension
        Name of the first dimension of input and output, which holds the two parts. A must not have
        it.

    Raises
    ------
    TypeError
        If ``linop`` is not an operator.
    ValueError
        If A has a dimension ``dim``.

    Examples
    --------
    >>> import torch
    >>> from linops_core import RealPart
    >>> RealForm(RealPart(("N",))).to_dense({"N": 1})
    tensor([[1., 0.],
            [0., 0.]], dtype=torch.float64)
    """

    is_real = True

    def __init__(self, linop: NamedLinop, dim: NamedDimension | str = "Part") -> None:
        check_operands("RealForm", [linop])
        dim = ND.infer(dim)
        if dim in linop.dims:
            raise ValueError(
                f"RealForm: dim must be a name that {linop.signature} does not have, got {dim}"
            )
        shape = NamedShape((dim, *linop.ishape), (dim, *linop.oshape))
        super().__init__(shape, [linop])
        self._is_endomorphism = linop.is_endomorphism

    @property
    def is_complex_linear(self) -> bool:
        """True: a complex input is two independent real inputs."""
        return True

    @staticmethod
    def fn(linop: RealForm, x: Tensor, /) -> Tensor:
        """Return the parts of A x."""
        return applied_to_parts(linop.linops[0], x)

    adj_fn = staticmethod(of_adjoint)
    adjoint = Composite._adjoint_of_operands

    def own_length(self, side: Side, position: int) -> int | None:
        """Return 2 for the dimension of the parts."""
        return None if position else 2

    def _equal_places(self) -> Iterable[EqualPlaces]:
        for side in SIDES:
            for position in range(1, len(dims_of(self._shape, side))):
                yield (COMPOSITION, side, position), (0, side, position - 1)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced."""
        return "a RealForm cannot be cut; cut the operator in it"

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the real form with ``shape``; the operand has no dimension for the parts."""
        operand = self.linops[0].resolved(ishape=shape.ishape[1:], oshape=shape.oshape[1:])
        return self.with_operands([operand], shape)


def applied_to_parts(linop: NamedLinop, x: Tensor) -> Tensor:
    """Return the parts of A x, given the parts of x; complex parts are two independent inputs."""
    if x.is_complex():
        real, imag = (applied_to_parts(linop, part) for part in (x.real, imag_part(x)))
        return real + 1j * imag
    return as_parts(linop(of_parts(x)))

"""Parts of a tensor put to another place, with zeros around: what pads and crops have in common."""

from __future__ import annotations

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._identity import Identity
from .._algebra._normal import Normal
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._kernels._shift import Shift, masked, moved
from ._grid_operator import GridOperator


class Placement(GridOperator[Shift]):
    r"""The base of pads and crops, :math:`y_j = x_{j - o}` and zero where there is no such x."""

    _is_real = True

    @staticmethod
    def fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x in its place; a view where nothing has to be filled with zeros."""
        return moved(x, linop._axes)

    @staticmethod
    def adj_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return what is in that place, brought back."""
        return moved(x, [shift.reverse for shift in linop._axes])

    @staticmethod
    def normal_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x with zeros where an element has no place in the output."""
        return masked(x, linop._axes)

    @staticmethod
    def adj_normal_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x with zeros where nothing of the other side has a place."""
        return masked(x, [shift.reverse for shift in linop._axes])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: a slice of one side is no slice of the other."""
        for shift, dims in zip(self._axes, self.axis_dims, strict=True):
            if dims == (dim, dim) and shift.moves_nothing:
                return None
        return super().why_opaque(dim)

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask where something is cut away."""
        shifts = (shift.reverse if self.is_adjoint else shift for shift in self._axes)
        if all(shift.keeps_all for shift in shifts):
            return Identity(self.ishape)
        return Normal(linked(self), NamedShape(self.ishape))

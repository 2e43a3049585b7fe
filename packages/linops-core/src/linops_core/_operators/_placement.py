"""Parts of a tensor put to another place, with zeros around: what pads and crops have in common."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._identity import Identity
from .._algebra._normal import Normal
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._kernels._halo import Axis
from .._kernels._shift import masked, moved
from ._grid_operator import GridOperator


class Placement(GridOperator[Axis]):
    r"""The base of pads and crops, :math:`y_j = x_{j - o}` and zero where there is no such x."""

    _is_real = True

    def __init__(self, shape: NamedShape, axes: Sequence[Axis], numbers: Sequence[int]) -> None:
        super().__init__(shape, axes)
        self._numbers = tuple(numbers)

    @staticmethod
    def fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x in its place; a view where nothing has to be filled with zeros."""
        return moved(x, linop._axes, linop._numbers)

    @staticmethod
    def adj_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return what is in that place, brought back."""
        return moved(x, [axis.reverse for axis in linop._axes], linop._numbers)

    @staticmethod
    def normal_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x with zeros where an element has no place in the output."""
        return masked(x, linop._axes, linop._numbers)

    @staticmethod
    def adj_normal_fn(linop: Placement, x: Tensor, /) -> Tensor:
        """Return x with zeros where nothing of the other side has a place."""
        return masked(x, [axis.reverse for axis in linop._axes], linop._numbers)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: a slice of one side is no slice of the other."""
        for axis, dims in zip(self._axes, self.axis_dims, strict=True):
            if dims == (dim, dim) and axis.before == 0 and axis.n_input == axis.n_output:
                return None
        return super().why_opaque(dim)

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask where something is cut away."""
        axes = (axis.reverse if self.is_adjoint else axis for axis in self._axes)
        if all(axis.keeps_all for axis in axes):
            return Identity(self.ishape)
        return Normal(linked(self), NamedShape(self.ishape))

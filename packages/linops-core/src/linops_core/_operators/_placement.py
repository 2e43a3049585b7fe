"""Parts of a tensor put to another place, with zeros around: what pads and crops have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._identity import Identity
from .._algebra._normal import Normal
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._roles import Role, why_on_both_sides
from .._base._sides import Side, dims_of
from .._base._sliceable import SliceableLinop
from .._kernels._shift import Shift, Steps, masking_steps, steps
from .._kernels._slices import clipped


class Placement(SliceableLinop):
    r"""The base of pads and crops, :math:`y_j = x_{j - o}` and zero where there is no such x.

    Input and output have the same number of dimensions, at the same places. Those that are placed
    may have other names in the output; then both can be sliced: a tile is again a placement.
    One that has the same name on both sides and changes cannot be.

    Parameters
    ----------
    shape : NamedShape
        With the placed dimensions as its other shapes ``from_grid`` and ``to_grid``.
    shifts : sequence of Shift
        One for each of them.
    """

    def __init__(self, shape: NamedShape, shifts: Sequence[Shift]) -> None:
        super().__init__(shape)
        self._shifts: tuple[Shift, ...] = ()
        self._goes_back = False
        self._move(tuple(shifts))

    def _move(self, shifts: tuple[Shift, ...]) -> None:
        """Set what this operator does, by ``vars``: it may be one that was just derived."""
        back = [shift.reverse for shift in shifts]
        own = vars(self)
        own.update(_shifts=shifts, _there=steps(shifts), _back=steps(back))
        own.update(_mask_there=masking_steps(shifts), _mask_back=masking_steps(back))

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x in its place; a view where nothing has to be filled with zeros."""
        return linop.moved(x, linop._there)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return what is in that place, brought back."""
        return linop.moved(x, linop._back)  # type: ignore[no-any-return]

    @staticmethod
    def normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x with zeros where an element has no place in the output."""
        return linop.moved(x, linop._mask_there)  # type: ignore[no-any-return]

    @staticmethod
    def adj_normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x with zeros where nothing of the other side has a place."""
        return linop.moved(x, linop._mask_back)  # type: ignore[no-any-return]

    def moved(self, x: Tensor, way: Steps) -> Tensor:
        """Return ``x`` after some steps, for which it must have the sizes.

        Also where one name stands for two sizes, of which nobody else knows.
        """
        shape = x.shape
        for axis, length in way.n_input:
            if shape[axis] != length:
                raise ValueError(
                    f"{self.name}: the size along axis {axis} must be {length}, got {shape[axis]} "
                    f"in an input of shape {tuple(shape)} for {self.shape}"
                )
        return way.applied(x)

    def adjoint(self) -> NamedLinop:
        """Return the placement that brings everything back."""
        adjoint = super().adjoint()
        vars(adjoint)["_goes_back"] = not self._goes_back
        return adjoint

    def conj(self) -> NamedLinop:
        """Return the operator itself, which is real."""
        return self

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator itself where it only passes ``dims`` on."""
        return self if self._only_passes_on(dims) else None

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask where something is cut away."""
        shifts = (shift.reverse if self._goes_back else shift for shift in self._shifts)
        if all(shift.keeps_all for shift in shifts):
            return Identity(self.ishape)
        return Normal(linked(self), NamedShape(self.ishape))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of a placed dimension; that of the input where the sides differ."""
        return self.size_of_side(dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of the placed dimensions of one side."""
        is_from = (side == "input") != self._goes_back
        grid = self.shape.other_shapes["from_grid" if is_from else "to_grid"]
        lengths = [shift.n_input if is_from else shift.n_output for shift in self._shifts]
        known = dict(zip(grid, lengths, strict=True))
        return tuple([known.get(dim) for dim in dims_of(self.shape, side)])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not the same in the input and the output."""
        places = {i for i, own, _ in self._placed_sides() if own == dim}
        both = all(dim in self.shape.other_shapes[grid] for grid in ("from_grid", "to_grid"))
        if both and (len(places) > 1 or not self._shifts[places.pop()].moves_nothing):
            return why_on_both_sides(self.shape, dim)
        return None

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return what has a place on the other side; see :meth:`NamedLinop.support`."""
        if self.role(dim) in (None, Role.OPAQUE):
            return None
        shapes = self.shape.other_shapes
        for grid, shifts in (
            ("from_grid", self._shifts),
            ("to_grid", [shift.reverse for shift in self._shifts]),
        ):
            if dim in shapes[grid]:
                shift = shifts[shapes[grid].index(dim)]
                return clipped(shift.start, shift.stop, shift.n_input)
        return None

    def _placed_sides(self) -> Iterable[tuple[int, NamedDimension, int]]:
        """Yield (number of the placed dimension, name, length) of the one side, then the other."""
        for i, dim in enumerate(self.shape.other_shapes["from_grid"]):
            yield i, dim, self._shifts[i].n_input
        for i, dim in enumerate(self.shape.other_shapes["to_grid"]):
            yield i, dim, self._shifts[i].n_output

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the placement between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        grids = (linop.shape.other_shapes[grid] for grid in ("from_grid", "to_grid"))
        shifts = tuple(
            shift.cut(window.get(here), window.get(there))
            for shift, here, there in zip(linop._shifts, *grids, strict=True)
        )
        if shifts == linop._shifts:
            return linop  # type: ignore[no-any-return]
        piece = linked(linop)
        piece._move(shifts)
        return piece  # type: ignore[no-any-return]

    adj_split = split

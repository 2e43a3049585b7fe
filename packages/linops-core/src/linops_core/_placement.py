"""Parts of a tensor put to another place, with zeros around: what pads and crops have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ._copying import linked
from ._identity import Identity
from ._linop import NamedLinop
from ._normal import Normal
from ._roles import Role
from ._sliceable import SliceableLinop


class Shift(NamedTuple):
    """How the elements of one axis move: index i of the input is i + offset of the output."""

    axis: int
    """Of input and output alike; behind a ``...`` counted from the end."""
    n_input: int
    n_output: int
    offset: int

    @property
    def start(self) -> int:
        """First index of the input that has a place in the output."""
        return max(0, -self.offset)

    @property
    def stop(self) -> int:
        """One past the last such index; not above ``start`` where nothing has a place."""
        return min(self.n_input, self.n_output - self.offset)

    @property
    def keeps_all(self) -> bool:
        """Whether every element of the input has a place in the output."""
        return self.start == 0 and self.stop == self.n_input

    @property
    def moves_nothing(self) -> bool:
        """Whether input and output are the same."""
        return self.offset == 0 and self.n_input == self.n_output

    @property
    def reverse(self) -> Shift:
        """The way back."""
        return Shift(self.axis, self.n_output, self.n_input, -self.offset)

    def cut(self, of_input: slice | None, of_output: slice | None) -> Shift:
        """Return what is between a slice of the input and a slice of the output."""
        first, end = (0, self.n_input) if of_input is None else (of_input.start, of_input.stop)
        begin, last = (0, self.n_output) if of_output is None else (of_output.start, of_output.stop)
        return Shift(self.axis, end - first, last - begin, self.offset + first - begin)


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
        self._shifts = tuple(shifts)
        self._goes_back = False

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x in its place; a view where nothing has to be filled with zeros."""
        linop.check_sizes(x, linop._shifts)
        return placed(x, linop._shifts)

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return what is in that place, brought back."""
        shifts = tuple(shift.reverse for shift in linop._shifts)
        linop.check_sizes(x, shifts)
        return placed(x, shifts)

    @staticmethod
    def normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x with zeros where an element has no place in the output."""
        linop.check_sizes(x, linop._shifts)
        return masked(x, linop._shifts)

    def check_sizes(self, x: Tensor, shifts: Iterable[Shift]) -> None:
        """Refuse an input of other sizes, also where one name stands for two sizes."""
        for shift in shifts:
            if x.shape[shift.axis] != shift.n_input:
                raise ValueError(
                    f"{self.name}: the size along axis {shift.axis} must be {shift.n_input}, "
                    f"got {x.shape[shift.axis]} in an input of shape {tuple(x.shape)} "
                    f"for {self.shape}"
                )

    @staticmethod
    def adj_normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x with zeros where nothing of the other side has a place."""
        shifts = tuple(shift.reverse for shift in linop._shifts)
        linop.check_sizes(x, shifts)
        return masked(x, shifts)

    def adjoint(self) -> NamedLinop:
        """Return the placement that brings everything back."""
        adjoint = super().adjoint()
        vars(adjoint)["_goes_back"] = not self._goes_back
        return adjoint

    def conj(self) -> NamedLinop:
        """Return the operator itself, which is real."""
        return self

    def uncentred(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator itself where it only passes ``dims`` on."""
        concerned = [dim for dim in dims if dim in self.dims]
        return self if all(self.role(dim) is Role.BATCH for dim in concerned) else None

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask where something is cut away."""
        shifts = (shift.reverse if self._goes_back else shift for shift in self._shifts)
        if all(shift.keeps_all for shift in shifts):
            return Identity(self.ishape)
        return Normal(linked(self), NamedShape(self.ishape))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of a placed dimension; None where the two sides differ in it."""
        lengths = {n for _, own, n in self._placed_sides() if own == dim}
        return lengths.pop() if len(lengths) == 1 else None

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not the same in the input and the output."""
        places = {i for i, own, _ in self._placed_sides() if own == dim}
        both = all(dim in self.shape.other_shapes[grid] for grid in ("from_grid", "to_grid"))
        if both and (len(places) > 1 or not self._shifts[places.pop()].moves_nothing):
            return "the input and the output have it, and a slice of one is no slice of the other"
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
        vars(piece)["_shifts"] = shifts
        return piece  # type: ignore[no-any-return]

    adj_split = split


def placed(x: Tensor, shifts: Sequence[Shift]) -> Tensor:
    """Return ``x`` with every axis of ``shifts`` placed."""
    lengths, pads = list(x.shape), [0] * (2 * x.ndim)
    for axis, _, n_output, offset in shifts:
        lengths[axis] = n_output
        behind = 2 * (x.ndim - 1 - axis % x.ndim)  # the last axis comes first
        pads[behind : behind + 2] = offset, n_output - x.shape[axis] - offset
    if any(shift.start >= shift.stop for shift in shifts):
        return x.new_zeros(lengths)
    if any(pad > 0 for pad in pads):
        return torch.nn.functional.pad(x, pads)
    return kept(x, shifts)


def masked(x: Tensor, shifts: Sequence[Shift]) -> Tensor:
    """Return ``x`` with zeros where an element has no place in the output of ``shifts``."""
    if any(shift.start >= shift.stop for shift in shifts):
        return torch.zeros_like(x)
    way_back = [
        Shift(shift.axis, shift.stop - shift.start, shift.n_input, shift.start) for shift in shifts
    ]
    return placed(kept(x, shifts), way_back)


def kept(x: Tensor, shifts: Iterable[Shift]) -> Tensor:
    """Return a view of the elements of ``x`` that have a place in the output of ``shifts``."""
    for shift in shifts:
        if not shift.keeps_all:
            x = x.narrow(shift.axis, shift.start, shift.stop - shift.start)
    return x

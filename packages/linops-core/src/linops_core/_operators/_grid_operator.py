"""Operators that act along each axis of a grid: their sizes, supports and tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from torch import Tensor

from memmap.siblings import check_flags
from nameddim import ND, NamedDimension, NamedShape, as_dims

from .._algebra._fitting import finds_grid_by_name
from .._base._copying import linked_copy
from .._base._dimensions import Side, dims_of, size_of_side
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._roles import Role, why_on_both_sides
from .._base._sliceable import SliceableLinop, only_passes_on, with_shifted_weights
from .._base._tile import Window
from ._grid_names import Dims, axes_of, from_the_end, names_with_replacement, to_the_end


class AxisMap(Protocol):
    """A map along one axis: from a grid dimension to the dimensions that replace it."""

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """Length of each dimension, the grid dimension first; None if any length is accepted."""

    @property
    def supports(self) -> tuple[slice | None, ...]:
        """The part of each dimension that is read or written; None for a whole dimension."""

    @property
    def cut(self) -> Callable[..., Self]:
        """Return the map between slices of the dimensions; None stands for a whole dimension."""


Map = TypeVar("Map", bound=AxisMap)


class GridPart(NamedTuple):
    """A part of an axis that the other side does not have."""

    size: int
    """Size of the whole axis."""
    start: int
    stop: int

    @property
    def lengths(self) -> tuple[int]:
        """Length of the part."""
        return (self.stop - self.start,)

    @property
    def supports(self) -> tuple[None]:
        """All of it."""
        return (None,)

    def cut(self, piece: slice | None) -> GridPart:
        """Return a part of the part."""
        if piece is None:
            return self
        return GridPart(self.size, self.start + piece.start, self.start + piece.stop)


class MixedAxis(NamedTuple):
    """An axis of a transform that mixes all of it, so that it is never cut."""

    n_input: int | None
    n_output: int | None

    @property
    def lengths(self) -> tuple[int | None, int | None]:
        """Length on both sides."""
        return self.n_input, self.n_output

    @property
    def supports(self) -> tuple[None, None]:
        """All of it."""
        return None, None

    def cut(self, *_: slice | None) -> MixedAxis:
        """Return it: no slice reaches it."""
        return self


class GridOperator(SliceableLinop, Generic[Map]):
    """An operator that acts along each axis of a grid as an :class:`AxisMap` says.

    A subclass gives the maps and the keys of its grids (``grid_keys``), and writes ``fn`` and
    ``adj_fn``. Sizes, supports, roles and tiles are derived from the maps. The grid may be at any
    place among the dimensions. :class:`GridNames` makes the shape. ``fn`` begins with
    ``linop.gathered(x)``, whose last axes are the grid, and returns ``linop.scattered(y)``.
    ``adj_fn`` uses ``gathered_back`` and ``scattered_back``.
    """

    saved_with: ClassVar[tuple[type, ...]] = (GridPart, MixedAxis)

    grid_keys: ClassVar[tuple[str, ...]] = ("from_grid", "to_grid")
    """Keys of ``shape.other_shapes`` for the dimensions of the grid and of the result."""

    _has_grid_as_input: ClassVar[bool] = True
    """Whether the grid is the input of ``fn``; otherwise it is the output."""

    _is_axis_by_axis: ClassVar[bool] = True
    """Whether each dimension of the grid becomes one dimension, as its :class:`AxisMap` says."""

    why_mixed: ClassVar[str | None] = None
    """Why no dimension of the grid can be sliced, for operators that mix all of the grid."""

    grid_axes: tuple[tuple[int, ...], tuple[int, ...]]
    """The axes of the grid, and the axes of the result; behind a ``...`` they are negative."""

    def __init__(self, shape: NamedShape, axes: Iterable[Map], is_free: bool = False) -> None:
        check_flags(type(self).__name__, is_free=is_free)
        super().__init__(shape)
        self._axes, self._is_free = tuple(axes), is_free
        self.grid_axes = self._grid_axes_in(shape)

    @property
    def axes(self) -> Sequence[Map]:
        """The map along each axis; empty if the size of the grid is not known."""
        return self._axes

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """The dimensions of each axis, None for one without a name."""
        shapes = self.shape.other_shapes
        grids = self.grid_keys if self._is_axis_by_axis else self.grid_keys[:1]
        return list(zip(*(shapes[grid] for grid in grids), strict=True))

    def gathered(self, x: Tensor) -> Tensor:
        """Return a view of an input of ``fn`` with the grid as its last axes."""
        return to_the_end(x, self.grid_axes[0])

    def scattered(self, y: Tensor) -> Tensor:
        """Return a view of a result with the grid as last axes, in the order of the output."""
        return from_the_end(y, self.grid_axes[1])

    def gathered_back(self, y: Tensor) -> Tensor:
        """Return a view of an input of ``adj_fn``; see ``gathered``."""
        return to_the_end(y, self.grid_axes[1])

    def scattered_back(self, x: Tensor) -> Tensor:
        """Return a view of a result of ``adj_fn``; see ``scattered``."""
        return from_the_end(x, self.grid_axes[0])

    def _grid_axes_in(self, shape: NamedShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes of the grid in the input, and the axes of the result in the output."""
        if len(self.grid_keys) != 2 or not {*self.grid_keys} <= shape.other_shapes.keys():
            return (), ()  # fn finds them itself
        first, second = (shape.other_shapes[key] for key in self.grid_keys)
        idims, odims = (first, second) if self._has_grid_as_input else (second, first)
        sides = (shape.oshape, shape.ishape) if self.is_adjoint else (shape.ishape, shape.oshape)
        return axes_of(idims, sides[0]), axes_of(odims, sides[1])

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for an input with these dimensions; see :class:`NamedLinop`."""
        fitted = super().fitted_to(dims)
        return fitted if fitted is not None or not self._is_free else self._fitted_by_name(dims)

    def _fitted_by_name(
        self, dims: tuple[NamedDimension, ...], in_front: tuple[Dims, Dims] = ((), ())
    ) -> NamedLinop | None:
        """Return the operator for these dimensions, whose first ones are not of the grid."""
        others = dict(self._shape.other_shapes)
        first, second = (others[key] for key in self.grid_keys)
        is_forward = self._has_grid_as_input != self.is_adjoint
        idims, odims = (first, second) if is_forward else (second, first)
        batch = tuple([dim for dim in dims if dim not in idims])
        taken = {*batch, *as_dims(in_front[0]), *as_dims(in_front[1])}
        if not idims or not {*idims} <= {*dims} or {*idims, *odims} & taken:
            return None
        others["batch_shape"] = batch
        sides = (*in_front[0], *dims), (*in_front[1], *names_with_replacement(dims, idims, odims))
        return self.resolved_to(NamedShape(*sides, **others))

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and the axes of its grid there."""
        return linked_copy(self, shape, grid_axes=self._grid_axes_in(shape))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``; its length in the input if the sides differ."""
        return size_of_side(self, dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of the grid or of the result, and the lengths of the weights."""
        is_grid = (side == "input") == (self._has_grid_as_input != self.is_adjoint)
        which = slice(0, 1) if is_grid else slice(1, None)
        by_dim: dict[NamedDimension | None, int | None] = {}
        for number, dims in enumerate(self.axis_dims):
            lengths = self._axes[number].lengths if self._axes else (None,) * len(dims)
            by_dim.update(zip(dims[which], lengths[which], strict=True))
        names = dims_of(self.shape, side)
        return tuple([by_dim[d] if d in by_dim else SliceableLinop.size(self, d) for d in names])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it has different slices on the two sides."""
        if not any(dim in dims for dims in self.axis_dims):
            return None
        if self.why_mixed is not None:
            return self.why_mixed
        reason = why_on_both_sides(self.shape, dim)
        if self.axes:
            return reason
        return f"{reason or 'a slice of the input gives no slice of the output'}; give sizes="

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return the part that a tile reads or writes; see :meth:`NamedLinop.support`."""
        if not self.axes or self.role(dim) in (None, Role.OPAQUE):
            return None
        for axis, dims in zip(self.axes, self.axis_dims, strict=True):
            if dim in dims:
                return axis.supports[dims.index(ND.infer(dim))]
        return None

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the operator between the slices of each window."""
        axis_dims = self.axis_dims
        of_grid = {dim for dims in axis_dims for dim in dims}
        # Axes of weights may have names of the grid, but are not cut with it.
        others = [{dim: w[dim] for dim in w if dim not in of_grid} for w in windows]
        tiles = super()._tiles_at(others) if any(others) else [self] * len(windows)
        if not windows or not windows[0].keys() & of_grid:
            return tiles
        cut = []
        for tile, window in zip(tiles, windows, strict=True):
            pieces = [[dim and window.get(dim) for dim in dims] for dims in axis_dims]
            pairs = zip(self._axes, pieces, strict=True)
            cut.append(linked_copy(tile, _axes=tuple([axis.cut(*cuts) for axis, cuts in pairs])))
        return cut


finds_grid_by_name.register(GridOperator)(attrgetter("_is_free"))


@without_fftshift.register(GridOperator)
def _off_the_grid(
    linop: GridOperator[AxisMap], dims: Iterable[NamedDimension]
) -> NamedLinop | None:
    """Return the operator itself if ``dims`` are not of the grid."""
    if linop._weights:
        return with_shifted_weights(linop, dims)
    return linop if only_passes_on(linop, dims) else None


def axis_by_axis(
    linop: GridOperator[AxisMap],
    dims: Iterable[NamedDimension],
    ishape: tuple[NamedDimension, ...],
) -> NamedLinop:
    """Return the answer to :func:`factor_along` of operators without weights and lengths."""
    others, kept = dict(linop.shape.other_shapes), {*dims}
    old, new = (others[key] for key in linop.grid_keys[:: -1 if linop.is_adjoint else 1])
    numbers = [number for number, dim in enumerate(old) if dim in kept]
    for key in linop.grid_keys:
        others[key] = tuple([others[key][number] for number in numbers])
    grid_dims, result = (tuple([side[number] for number in numbers]) for side in (old, new))
    others["batch_shape"] = tuple([dim for dim in ishape if dim not in grid_dims])
    return linop.resolved_to(
        NamedShape(ishape, names_with_replacement(ishape, grid_dims, result), **others)
    )


def axis_names(letter: str, ndim: int) -> Dims:
    """Return the letter with x, y, z, or with numbers for more axes than three."""
    return (
        tuple([f"{letter}{x}" for x in "xyz"[:ndim]])
        if ndim <= 3
        else numbered_letters(letter, ndim)
    )


def numbered_letters(letter: str, ndim: int) -> Dims:
    """Return the letter, the letter with 1, with 2, and so on."""
    return tuple([f"{letter}{axis or ''}" for axis in range(ndim)])

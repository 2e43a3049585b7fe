"""Elements of a grid picked in a regular order, and put back with zeros around and between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar

from torch import Tensor

from nameddim import NamedDimension, NamedShape, as_dims

from .._algebra._identity import Identity
from .._algebra._normal import Normal
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._sizes import by_dimension, is_size, per_axis
from .._kernels._picked_axis import PickedAxis, picked, put_back
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator

Sizes = Sequence[int] | Mapping[str, int]
Way = Callable[[Tensor, Sequence[PickedAxis]], Tensor]


class Picking(GridOperator[PickedAxis]):
    r"""The base: :math:`y_j = x_{f + s j}` along each axis, or the adjoint of that."""

    saved_with: ClassVar[tuple[type, ...]] = (PickedAxis,)

    _is_real = True
    _takes_any_batch = True

    def __init__(
        self, dims: Dims, axes: Sequence[PickedAxis], shape: Dims | None, to: Dims | None
    ) -> None:
        names = GridNames.along(type(self).__name__, dims, shape, to)
        grid, picks = names.grid, names.result
        if not self._has_grid_as_input:
            grid, picks = picks, grid
        super().__init__(names.shape(from_grid=grid, to_grid=picks), axes, names.is_free)

    def axes_for(self, x: Tensor) -> Sequence[PickedAxis]:
        """Return what is done along the last axes of x."""
        return self._axes

    def _ways(self) -> tuple[Way, Way]:
        """Return what ``fn`` does along the last axes, and what ``adj_fn`` does."""
        return (picked, put_back) if self._has_grid_as_input else (put_back, picked)

    @staticmethod
    def fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return what is picked, or put back."""
        x = linop.gathered(x)
        return linop.scattered(linop._ways()[0](x, linop.axes_for(x)))

    @staticmethod
    def adj_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return the adjoint."""
        x = linop.gathered_back(x)
        return linop.scattered_back(linop._ways()[1](x, linop.axes_for(x)))

    @staticmethod
    def normal_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return x with zeros in the place of what is lost."""
        x, (there, back) = linop.gathered(x), linop._ways()
        axes = linop.axes_for(x)
        return linop.scattered_back(back(there(x, axes), axes))

    @staticmethod
    def adj_normal_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return x with zeros in the place of what the adjoint loses."""
        x, (there, back) = linop.gathered_back(x), linop._ways()
        axes = linop.axes_for(x)
        return linop.scattered(there(back(x, axes), axes))

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask where something is lost."""
        if self._has_grid_as_input != self.is_adjoint:
            keeps = [axis.keeps_all for axis in self._axes]
        else:
            keeps = [axis.reverse_keeps_all for axis in self._axes]
        return (
            Identity(self.ishape) if all(keeps) else Normal(linked(self), NamedShape(self.ishape))
        )

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it needs another name in the output, or a size."""
        return why_not_cut(self, dim)


class Slice(Picking):
    r"""Every so many-th element of some dimensions, from a first one on: :math:`y_j = x_{f + s j}`.

    It is ``x[start:stop:step]`` of NumPy, with negative starts, stops and steps, and a view where
    no step is negative. The adjoint is :class:`Embed`. The normal operator multiplies what is left
    out with zero.

    Parameters
    ----------
    dims_to_slices : mapping of dimension to slice
    sizes : sequence of int, or mapping of dimension to int
        Length of each of these dimensions in the input.
    shape : sequence of dimensions, optional
        All dimensions of the input, in their order; by default ``("...", *dims)``, or what a
        neighbour in a composition returns.
    to : sequence of dimensions, optional
        What the dimensions are called in the output. By default they keep their names, and cannot
        be cut. With other names, a tile of the output reads only what it picks.

    Raises
    ------
    TypeError
        If what is given is no mapping of dimensions to slices of integers.
    ValueError
        If the sizes are not positive, one for each dimension, or a slice is empty.

    Examples
    --------
    >>> import torch
    >>> A = Slice({"N": slice(1, 4)}, [5])
    >>> A(torch.arange(5.0)), A.H(torch.ones(3))
    (tensor([1., 2., 3.]), tensor([0., 1., 1., 1., 0.]))
    >>> Slice({"N": slice(None, None, -2)}, [5], to=("M",))(torch.arange(5.0))
    tensor([4., 2., 0.])
    """

    def __init__(
        self,
        dims_to_slices: Mapping[str, slice],
        sizes: Sizes,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        owner = type(self).__name__
        if not isinstance(dims_to_slices, Mapping):
            raise TypeError(
                f"{owner}: dims_to_slices must be a mapping of dimensions to slices, as in "
                f'{{"Nx": slice(2, 5)}}, got {dims_to_slices!r}'
            )
        dims = as_dims(tuple(dims_to_slices))
        lengths = sizes_of(owner, dims, sizes)
        pairs = zip(dims, dims_to_slices.values(), lengths, strict=True)
        super().__init__(dims, [_axis_of(owner, *pair) for pair in pairs], shape, to)


class Embed(Slice):
    r"""Elements put to regular places along some dimensions, with zeros around and between.

    :math:`y_{f + s j} = x_j`, the adjoint of :class:`Slice`, which has the parameters. ``sizes``
    are those of the output, the dimensions are those of the input, and ``to`` names the output's.
    The normal operator is the identity.

    Examples
    --------
    >>> import torch
    >>> Embed({"N": slice(1, None, 2)}, [5])(torch.tensor([1.0, 2.0]))
    tensor([0., 1., 0., 2., 0.])
    """

    _has_grid_as_input = False


class Downsample(Picking):
    r"""Every f-th element along some dimensions, from an offset on: :math:`y_j = x_{o + f j}`.

    Nothing is averaged: put a :class:`Convolution` before it against aliasing. The result is a
    view. The adjoint is :class:`Upsample`.

    Parameters
    ----------
    dims : sequence of dimensions
    factors : sequence of int
        f, for each dimension.
    sizes : sequence of int, or mapping of dimension to int
        Length of each in the input.
    offsets : sequence of int, optional
        o, from 0 to below the size; 0 by default.
    shape, to : sequences of dimensions, optional
        As for :class:`Slice`.

    Raises
    ------
    TypeError
        If factors, sizes or offsets are no sequences.
    ValueError
        If they are not such numbers, one for each dimension.

    Examples
    --------
    >>> import torch
    >>> A = Downsample(("N",), [3], [8], [1])
    >>> A(torch.arange(8.0)), A.H(torch.ones(3))
    (tensor([1., 4., 7.]), tensor([0., 1., 0., 0., 1., 0., 0., 1.]))
    """

    def __init__(
        self,
        dims: Dims,
        factors: Sequence[int],
        sizes: Sizes,
        offsets: Sequence[int] | None = None,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        owner, names = type(self).__name__, as_dims(dims)
        lengths, steps = sizes_of(owner, names, sizes), per_axis(owner, "factors", factors)
        firsts = (0,) * len(names) if offsets is None else per_axis(owner, "offsets", offsets)
        if not (
            len(steps) == len(firsts) == len(names)
            and all(map(is_size, steps))
            and all(isinstance(at, Integral) for at in firsts)
            and all(0 <= at < size for at, size in zip(firsts, lengths, strict=True))
        ):
            raise ValueError(
                f"{owner}: there must be a positive factor and an offset from 0 to below the size "
                f"{lengths} for each of {names}, integers, got factors {steps} and offsets {firsts}"
            )
        pairs = zip(names, map(slice, firsts, lengths, steps), lengths, strict=True)
        super().__init__(names, [_axis_of(owner, *pair) for pair in pairs], shape, to)


class Upsample(Downsample):
    r"""Zeros between the elements of some dimensions: :math:`y_{o + f j} = x_j`.

    The adjoint of :class:`Downsample`, which has the parameters. ``sizes`` are those of the output,
    the dimensions are those of the input, and ``to`` names the output's. Put a
    :class:`Convolution` behind it to interpolate.

    Examples
    --------
    >>> import torch
    >>> Upsample(("N",), [2], [6])(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 2., 0., 3., 0.])
    """

    _has_grid_as_input = False


class Flip(Picking):
    r"""The elements of some dimensions in reverse: :math:`y_j = x_{N - 1 - j}`.

    Its adjoint goes from the output to the input and does the same; the normal operator is the
    identity.

    Parameters
    ----------
    dims : sequence of dimensions
    sizes : sequence of int, or mapping of dimension to int, optional
        Their lengths. Without them they may be any, and the dimensions cannot be cut.
    shape, to : sequences of dimensions, optional
        As for :class:`Slice`. A slice of the output reads the mirrored slice of the input.

    Raises
    ------
    ValueError
        If the sizes are not positive integers, one for each dimension.

    Examples
    --------
    >>> import torch
    >>> Flip(("N",))(torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 2., 1.])
    >>> A = Flip(("N",), [8], to=("M",))
    >>> A.split(A, {"M": slice(0, 2)}).support("N")
    slice(6, 8, None)
    """

    def __init__(
        self,
        dims: Dims,
        sizes: Sizes | None = None,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        names = as_dims(dims)
        lengths = () if sizes is None else sizes_of("Flip", names, sizes)
        super().__init__(names, [_mirrored(size) for size in lengths], shape, to)

    def axes_for(self, x: Tensor) -> Sequence[PickedAxis]:
        """Return what is done along the last axes of x."""
        first, _ = self._places
        return self._axes or [_mirrored(size) for size in x.shape[x.ndim - len(first) :]]


def sizes_of(owner: str, dims: Sequence[NamedDimension], sizes: Sizes) -> tuple[int, ...]:
    """Return the length of each dimension, given in their order or by name."""
    if isinstance(sizes, Mapping):
        known = by_dimension(owner, sizes)
        found: tuple[object, ...] = tuple([known.get(dim) for dim in dims])
        fits = known.keys() == {*dims}
    else:
        found = per_axis(owner, "sizes", sizes)
        fits = len(found) == len(dims)
    lengths = tuple([int(size) for size in found if is_size(size)])
    if not fits or len(lengths) != len(dims):
        raise ValueError(
            f"{owner}: sizes must be positive integers, one for each of {tuple(dims)}, got {sizes}"
        )
    return lengths


def why_not_cut(linop: GridOperator[Any], dim: NamedDimension | str) -> str | None:
    """Return which names or sizes are missing to slice ``dim``, if it is one that is moved."""
    if not any(dim in dims for dims in linop.axis_dims):
        return None
    is_on_both = dim in linop.ishape and dim in linop.oshape
    missing = ["to= other names for the output"] * is_on_both + ["sizes="] * (not linop.axes)
    if not missing:
        return None
    return f"a slice of one side is no slice of the other; give {' and '.join(missing)}"


def _axis_of(owner: str, dim: NamedDimension, piece: slice, size: int) -> PickedAxis:
    if not isinstance(piece, slice):
        raise TypeError(
            f"{owner}: {dim} must have a slice, got {piece!r}; one element is slice(i, i + 1)"
        )
    try:
        taken = range(*piece.indices(size))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{owner}: {dim} must have a slice of integers, got {piece}") from error
    if not taken:
        raise ValueError(
            f"{owner}: the slice of {dim}, of size {size}, must not be empty, got {piece}"
        )
    return PickedAxis(size, len(taken), taken.start, taken.step)


def _mirrored(size: int) -> PickedAxis:
    return PickedAxis(size, size, size - 1, -1)

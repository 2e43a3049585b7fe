"""Slicing, downsampling and flipping of dimensions, and their adjoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from nameddim import NamedDimension, NamedShape, as_dims

from .._algebra._identity import Identity
from .._algebra._normal import Normal
from .._base._linop import NamedLinop
from .._base._sizes import by_dimension, per_axis
from .._kernels._picked_axis import PickedAxis, picked, put_back
from .._numbers import is_integer, is_size
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator

Sizes = Sequence[int] | Mapping[str, int]
Way = Callable[[Tensor, Sequence[PickedAxis]], Tensor]


class Picking(GridOperator[PickedAxis]):
    r"""The base class: :math:`y_j = x_{f + s j}` along each axis, or its adjoint."""

    saved_with: ClassVar[tuple[type, ...]] = (PickedAxis,)

    is_real = True
    takes_any_batch = True

    def __init__(
        self, dims: Dims, axes: Sequence[PickedAxis], shape: Dims | None, to: Dims | None
    ) -> None:
        names = GridNames.along(type(self).__name__, dims, shape, to)
        grid, picks = names.grid, names.result
        if not self._has_grid_as_input:
            grid, picks = picks, grid
        super().__init__(names.shape(from_grid=grid, to_grid=picks), axes, names.is_free)

    def axes_for(self, x: Tensor) -> Sequence[PickedAxis]:
        """Return the maps along the last axes of x."""
        return self._axes

    def _ways(self) -> tuple[Way, Way]:
        """Return the functions of ``fn`` and of ``adj_fn`` along the last axes."""
        return (picked, put_back) if self._has_grid_as_input else (put_back, picked)

    @staticmethod
    def fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return the picked elements, or put elements back."""
        x = linop.gathered(x)
        return linop.scattered(linop._ways()[0](x, linop.axes_for(x)))

    @staticmethod
    def adj_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return the adjoint."""
        x = linop.gathered_back(x)
        return linop.scattered_back(linop._ways()[1](x, linop.axes_for(x)))

    @staticmethod
    def normal_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return x with zeros for elements that are not picked."""
        x, (forth, back) = linop.gathered(x), linop._ways()
        axes = linop.axes_for(x)
        return linop.scattered_back(back(forth(x, axes), axes))

    @staticmethod
    def adj_normal_fn(linop: Picking, x: Tensor, /) -> Tensor:
        """Return x with zeros for elements that the adjoint does not pick."""
        x, (forth, back) = linop.gathered_back(x), linop._ways()
        axes = linop.axes_for(x)
        return linop.scattered(forth(back(x, axes), axes))

    def own_normal(self) -> NamedLinop:
        """Return the identity, or a mask if elements are not picked."""
        if self._has_grid_as_input != self.is_adjoint:
            keeps = [axis.keeps_all for axis in self._axes]
        else:
            keeps = [axis.reverse_keeps_all for axis in self._axes]
        return Identity.on_input_of(self) if all(keeps) else Normal(self, NamedShape(self.ishape))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it needs another name in the output, or a size."""
        pairs = zip(self._axes, self.axis_dims, strict=False)
        is_kept = any(names == (dim, dim) and not axis.moves for axis, names in pairs)
        return None if is_kept else super().why_opaque(dim)


class Slice(Picking):
    r"""Slices of some dimensions, :math:`y_j = x_{f + s j}`.

    It is NumPy's ``x[start:stop:step]``; start, stop and step may be negative. The result is a view
    if no step is negative. The adjoint is :class:`Embed`. The normal operator sets the other
    elements to zero.

    Parameters
    ----------
    dims_to_slices : mapping of dimension to slice
    sizes : sequence of int, or mapping of dimension to int
        Lengths of these dimensions in the input.
    shape : sequence of dimensions, optional
        All dimensions of the input, in order. By default ``("...", *dims)``; in a composition, the
        dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        Names of ``dims`` in the output. By default they keep their names and cannot be sliced. With
        other names, a tile of the output reads only what it picks.

    Raises
    ------
    TypeError
        If ``dims_to_slices`` is not a mapping of dimensions to slices of integers.
    ValueError
        If there is not one positive size for each dimension, or a slice is empty.

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
    r"""Elements placed into larger dimensions, with zeros around and between them.

    :math:`y_{f + s j} = x_j`. It is the adjoint of :class:`Slice`, which describes the parameters.
    Here ``sizes`` are sizes of the output. Dimensions are given by their names in the input; ``to``
    gives their names in the output. The normal operator is the identity.

    Examples
    --------
    >>> import torch
    >>> Embed({"N": slice(1, None, 2)}, [5])(torch.tensor([1.0, 2.0]))
    tensor([0., 1., 0., 2., 0.])
    """

    _has_grid_as_input = False


class Downsample(Picking):
    r"""Every f-th element along some dimensions, starting at an offset: :math:`y_j = x_{o + f j}`.

    It does not average: compose it with a :class:`Convolution` to prevent aliasing. The result is a
    view. The adjoint is :class:`Upsample`.

    Parameters
    ----------
    dims : sequence of dimensions
    factors : sequence of int
        f, one for each dimension.
    sizes : sequence of int, or mapping of dimension to int
        Lengths of ``dims`` in the input.
    offsets : sequence of int, optional
        o, at least 0 and below the size; 0 by default.
    shape, to : sequences of dimensions, optional
        As for :class:`Slice`.

    Raises
    ------
    TypeError
        If factors, sizes or offsets are not sequences.
    ValueError
        If a number is not an integer or is out of range, or there is not one for each dimension.

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
            and all(is_integer(at, 0) and at < n for at, n in zip(firsts, lengths, strict=True))
        ):
            raise ValueError(
                f"{owner}: factors must be positive integers, and offsets integers from 0 to below "
                f"the sizes {lengths}, one for each of {names}, got factors {steps}, "
                f"offsets {firsts}"
            )
        pairs = zip(names, map(slice, firsts, lengths, steps), lengths, strict=True)
        super().__init__(names, [_axis_of(owner, *pair) for pair in pairs], shape, to)


class Upsample(Downsample):
    r"""Zeros between the elements of some dimensions: :math:`y_{o + f j} = x_j`.

    It is the adjoint of :class:`Downsample`, which describes the parameters. Here ``sizes`` are
    sizes of the output. Dimensions are given by their names in the input; ``to`` gives their names
    in the output. Apply a :class:`Convolution` after it to interpolate.

    Examples
    --------
    >>> import torch
    >>> Upsample(("N",), [2], [6])(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 2., 0., 3., 0.])
    """

    _has_grid_as_input = False


class Flip(Picking):
    r"""The elements of some dimensions in reverse order: :math:`y_j = x_{N - 1 - j}`.

    The adjoint does the same from output to input. The normal operator is the identity.

    Parameters
    ----------
    dims : sequence of dimensions
    sizes : sequence of int, or mapping of dimension to int, optional
        Lengths of ``dims``. Without them any length is accepted, and ``dims`` cannot be sliced.
    shape, to : sequences of dimensions, optional
        As for :class:`Slice`. A slice of the output reads the mirrored slice of the input.

    Raises
    ------
    ValueError
        If there is not one positive integer as size for each dimension.

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
        """Return the maps along the last axes of x."""
        first, _ = self.grid_axes
        return self._axes or [_mirrored(size) for size in x.shape[x.ndim - len(first) :]]


def sizes_of(owner: str, dims: Sequence[NamedDimension], sizes: Sizes) -> tuple[int, ...]:
    """Return the length of each dimension, given in their order or by name."""
    if isinstance(sizes, Mapping):
        given = by_dimension(owner, sizes)
        known_sizes: tuple[object, ...] = tuple([given.get(dim) for dim in dims])
        fits = given.keys() == {*dims}
    else:
        known_sizes = per_axis(owner, "sizes", sizes)
        fits = len(known_sizes) == len(dims)
    lengths = tuple([int(size) for size in known_sizes if is_size(size)])
    if not fits or len(lengths) != len(dims):
        raise ValueError(
            f"{owner}: sizes must be positive integers, one for each of {tuple(dims)}, got {sizes}"
        )
    return lengths


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

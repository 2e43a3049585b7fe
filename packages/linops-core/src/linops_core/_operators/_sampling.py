"""Sampling of a grid at given indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Self

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._normal import Normal
from .._algebra._slice_by_slice import gains_by_slices
from .._base._copying import linked_copy
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._question import always_true
from .._base._sizes import per_axis
from .._kept import Kept
from .._kernels._accumulate import concatenate, dtype_of_sums, writing_is_safe
from .._kernels._alike import steps_that_differ
from .._kernels._changes import writes_are_counted
from .._kernels._dtype import (
    at_least_single,
    is_dense,
    not_a_tensor,
    product_in_wide_dtype,
    summable,
)
from .._kernels._plain import can_read_values, is_plain
from .._kernels._tracing import is_recorded
from .._numbers import is_size
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator, GridPart, axis_names, numbered_letters

_SINGLE = (torch.float16, torch.bfloat16, torch.float32, torch.complex32, torch.complex64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Sampling(GridOperator[GridPart]):
    r"""The values of a grid at given points, :math:`y_k = x_{i_k}`.

    The adjoint puts values back and adds values of the same point. The normal operator multiplies
    each grid point by the number of its samples; if no point is sampled twice, by the mask.

    Parameters
    ----------
    idx : sequence of Tensor
        One integer tensor for each dimension of the grid, all of the same shape. Indices count from
        0.
    input_size : sequence of int
        Size of the grid.
    output_shape : sequence of dimensions, optional
        Dimensions of the index tensors; K, K1, ... by default. They can be sliced.
    input_shape : sequence of dimensions, optional
        Dimensions of the grid; Kx, Ky, Kz by default. They cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. Any dimensions by default.
    dims : sequence of dimensions, optional
        Dimensions of the grid, at any place, in the order of ``idx``; instead of the shapes above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: names of the samples, K, K1, ... by default. If there is one name for each of
        ``dims``, it takes the place of that dimension. Otherwise all names are at the place of the
        first of ``dims``.

    Raises
    ------
    TypeError
        If the indices are not tensors of integers, or ``input_size`` is not a sequence.
    ValueError
        If the indices do not fit the grid in number, shapes, names or values, or a size is not a
        positive integer. Values are checked again after indices were written to or replaced.

    Examples
    --------
    >>> A = Sampling([torch.tensor([2, 0])], [3])
    >>> A(torch.tensor([5.0, 6.0, 7.0]))
    tensor([7., 5.])
    >>> A.H(torch.tensor([7.0, 5.0]))
    tensor([5., 0., 7.])
    """

    is_real = True
    grid_keys = ("grid_shape", "idx_shape")
    _is_axis_by_axis = False
    takes_any_batch = True

    def __init__(
        self,
        idx: Sequence[Tensor],
        input_size: Sequence[int],
        output_shape: Dims | None = None,
        input_shape: Dims | None = None,
        batch_shape: Dims | None = None,
        *,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        sizes = per_axis("Sampling", "input_size", input_size)
        if not all(map(is_size, sizes)):
            raise ValueError(f"Sampling: input_size must be positive integers, got {sizes}")
        _check_indices(idx, sizes)
        n_dims, why = len(sizes), f"a grid of {sizes} and indices of shape {tuple(idx[0].shape)}"
        default = axis_names("K", n_dims) if n_dims <= 3 else numbered_letters("N", n_dims)
        of_grid = "input_shape", input_shape, default
        of_result = "output_shape", output_shape, numbered_letters("K", idx[0].ndim)
        names = GridNames.of("Sampling", (dims, shape, to), batch_shape, of_grid, of_result, why)
        full = names.shape(grid_shape=names.grid, idx_shape=names.result)
        super().__init__(full, [GridPart(size, 0, size) for size in sizes], names.is_free)
        self.input_size = sizes
        self._shifted: tuple[int, ...] = ()
        self._counted, self._idx_facts = Kept[Tensor](is_only=True), Kept[bool]()
        self._idx_facts.get_or_make(idx, "fit", lambda: True)
        self._was_crowded: bool | None = None  # for indices whose values cannot be read
        for axis, indices in enumerate(idx):
            self.register_weight(f"idx_{axis}", indices, "idx_shape")

    @classmethod
    def from_mask(
        cls,
        mask: Tensor,
        input_size: Sequence[int] | None = None,
        output_shape: Dims | None = None,
        input_shape: Dims | None = None,
        batch_shape: Dims | None = None,
        *,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> Self:
        """Make a Sampling of the points at which ``mask`` is not zero, in row-major order.

        The mask has the shape of the grid. If ``input_size`` is given, too, it must be the shape of
        the mask, or a ValueError is raised. Other arguments are those of :class:`Sampling`.

        Examples
        --------
        >>> Sampling.from_mask(torch.tensor([True, False, True]))(torch.tensor([5.0, 6.0, 7.0]))
        tensor([5., 7.])
        """
        if not is_dense(mask):
            raise not_a_tensor("Sampling", "the mask", mask)
        sizes = mask.shape if input_size is None else tuple(input_size)
        if sizes != mask.shape:
            raise ValueError(
                f"Sampling: input_size must be the shape of the mask, {tuple(mask.shape)}, "
                f"got {sizes}; leave it out, or give names as output_shape= and input_shape="
            )
        shapes = output_shape, input_shape, batch_shape
        points = (mask != 0).nonzero(as_tuple=True)  # not of uint16, for which torch has none
        return cls(points, sizes, *shapes, dims=dims, shape=shape, to=to)

    @classmethod
    def from_stacked_idx(
        cls,
        idx: Tensor,
        input_size: Sequence[int],
        output_shape: Dims | None = None,
        input_shape: Dims | None = None,
        batch_shape: Dims | None = None,
        *,
        dim: int = -1,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> Self:
        """Make a Sampling from one tensor that holds the indices of a point along ``dim``.

        The operator keeps views of ``idx``. Other arguments are those of :class:`Sampling`.

        Examples
        --------
        >>> A = Sampling.from_stacked_idx(torch.tensor([[0, 1], [1, 1]]), (2, 2))
        >>> A(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([2., 4.])
        """
        if not isinstance(idx, Tensor):
            raise TypeError(f"Sampling: stacked indices must be one tensor, got {type(idx)}")
        shapes = output_shape, input_shape, batch_shape
        return cls(idx.unbind(dim), input_size, *shapes, dims=dims, shape=shape, to=to)

    @property
    def idx(self) -> tuple[Tensor, ...]:
        """The index tensors, one for each dimension of the grid; a tile has its own."""
        return tuple(self.weight_part(f"idx_{axis}") for axis in range(len(self.input_size)))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: samples lie anywhere on the grid."""
        if dim in self.shape.other_shapes["grid_shape"]:
            return "the samples may lie anywhere on the grid"
        return None

    @staticmethod
    def fn(linop: Sampling, x: Tensor, /) -> Tensor:
        """Return the samples of x."""
        indices, x = linop.flat_indices(), linop.gathered(x)
        batch = x.shape[: x.ndim - len(linop.input_size)]
        grid = x.to(linop.dtype_of_sums(x.dtype)) if is_recorded(x) else x  # its gradient adds
        points = indices.flatten().expand(*batch, -1)
        # Not index_select, which copies a grid that is not contiguous.
        samples = grid.reshape(*batch, prod(linop.input_size)).gather(-1, points)
        return linop.scattered(samples.reshape(batch + indices.shape).to(x.dtype))

    @staticmethod
    def adj_fn(linop: Sampling, x: Tensor, /) -> Tensor:
        """Return the grid with the samples at their points, added up."""
        indices, x = linop.flat_indices(), linop.gathered_back(x)
        batch = x.shape[: x.ndim - indices.ndim]
        x = summable(x)
        samples, dtype = x.reshape(prod(batch), indices.numel()), linop.dtype_of_sums(x.dtype)

        def gridded(rows: Tensor) -> Tensor:
            targets, rows = indices.flatten().expand(rows.shape), rows.to(dtype)
            grid = rows.new_zeros(len(rows), prod(linop.input_size)).scatter_add(-1, targets, rows)
            return grid.to(x.dtype)

        # Row by row in double precision, of which only one is in memory then.
        parts = [samples] if dtype == x.dtype or not len(samples) else samples.split(1)
        steps = steps_that_differ(x, parts, lambda rows: rows)
        grids = concatenate(map(gridded, steps), 0, len(samples))
        return linop.scattered_back(grids.reshape(*batch, *linop.input_size))

    @staticmethod
    def normal_fn(linop: Sampling, x: Tensor, /) -> Tensor:
        """Return x times the number of samples at each point."""
        x = linop.gathered(summable(x))
        return linop.scattered_back(product_in_wide_dtype(linop.counts(x), x))

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        other = super().with_weights(change)
        vars(other)["_was_crowded"] = self.dtype_of_sums(torch.float32) is torch.float64
        return other

    def _all_indices(self) -> list[Tensor]:
        return [*map(self._weight, self._weights)]

    def dtype_of_sums(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype in which samples of one point are added, by all indices."""
        if torch.compiler.is_compiling() or dtype not in _SINGLE:
            return dtype
        idx = self._all_indices()
        if can_read_values(*idx):
            is_crowded = self._idx_facts.get_or_make(idx, "crowded", partial(self._is_crowded, idx))
        elif self._was_crowded is None:
            is_crowded = self._is_crowded(idx)
        else:
            is_crowded = self._was_crowded
        return torch.promote_types(dtype, torch.float64) if is_crowded else at_least_single(dtype)

    def _is_crowded(self, idx: Sequence[Tensor]) -> bool:
        """Whether many samples share a point."""
        strides = [prod(self.input_size[axis + 1 :]) for axis in range(len(idx))]
        cells = (
            sum(index.long() * stride for index, stride in zip(part, strides, strict=True))
            for part in zip(*(i.detach().flatten().split(2**20) for i in idx), strict=True)
        )
        return dtype_of_sums(torch.float32, idx[0].numel(), cells) is torch.float64

    def flat_indices(self) -> Tensor:
        """Return the position of each sample in the flattened grid; shape of an index tensor."""
        if not torch.compiler.is_compiling():  # a graph cannot depend on values
            idx = self._all_indices()
            self._idx_facts.get_or_make(idx, "fit", partial(_check_indices, idx, self.input_size))
        parts = [indices.long() for indices in self.idx]
        for axis in self._shifted:
            size = self.input_size[axis]
            parts[axis] = (parts[axis] + (size - size // 2)) % size
        flat, *others = parts
        for size, indices in zip(self.input_size[1:], others, strict=True):
            flat = torch.add(indices, flat, alpha=size)  # in one pass
        return flat

    def counts(self, x: Tensor) -> Tensor:
        """Return the number of samples at each point of the grid, or of a part, to multiply x.

        It is kept in the dtype of x: a product of two dtypes takes three times as long on a CPU.
        """
        idx = self._all_indices()
        how = x.dtype, self._shifted, self._weights["idx_0"].bounds
        counts = self._counted.get(idx, how) if writing_is_safe() else None
        if counts is None:
            count = partial(self._count, x.dtype)
            if is_plain(x, *idx) and writes_are_counted(*idx):
                counts = self._counted.get_or_make(idx, how, count)
            else:
                counts = count()
        for axis, part in enumerate(self._axes):
            if part.stop - part.start < part.size:
                counts = counts.narrow(axis, part.start, part.stop - part.start)
        return counts

    def _count(self, dtype: torch.dtype) -> Tensor:
        indices = self.flat_indices().flatten()
        # Integers, as a sum of ones stops at 256 in bfloat16 and at 2^24 in float32.
        ones = torch.ones((), dtype=torch.int64, device=indices.device).expand(indices.shape)
        counts = ones.new_zeros(prod(self.input_size)).scatter_add(0, indices, ones)
        return counts.to(dtype).reshape(self.input_size)

    def own_normal(self) -> NamedLinop:
        """Return the multiplication by the number of samples at each point."""
        if self.is_adjoint:
            return super().own_normal()  # from samples to samples
        return Normal(self, NamedShape(self.ishape), multiplies_by="numbers")


gains_by_slices.register(Sampling)(always_true)


@without_fftshift.register(Sampling)
def _at_shifted_indices(linop: Sampling, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    shapes, concerned = linop.shape.other_shapes, set(dims)
    if concerned & set(shapes["idx_shape"]):
        return None
    axes = tuple(axis for axis, dim in enumerate(shapes["grid_shape"]) if dim in concerned)
    if not axes:
        return linop
    sizes = linop.input_size
    if linop._shifted or any(linop._axes[n].lengths != (sizes[n],) for n in axes):
        return None
    return linked_copy(linop, _shifted=axes)


def _check_indices(idx: Sequence[Tensor], sizes: tuple[int, ...]) -> bool:
    """Return True if the indices fit the grid; raise an error otherwise."""
    if not isinstance(idx, Sequence):
        raise TypeError(
            "Sampling: idx must be a sequence of tensors, one per sampled dimension, "
            f"got {type(idx)}"
        )
    if len(idx) != len(sizes) or not sizes:
        raise ValueError(
            f"Sampling: there must be one index tensor per dimension of the grid, "
            f"got {len(idx)} for a grid of {sizes}"
        )
    for indices, size in zip(idx, sizes, strict=True):
        if not is_dense(indices) or indices.dtype not in _INTEGERS:
            raise not_a_tensor("Sampling", "indices", indices, "tensors of integers")
        if indices.shape != idx[0].shape:
            raise ValueError(
                "Sampling: all index tensors must have one shape, "
                f"got {[tuple(indices.shape) for indices in idx]}"
            )
        has_values = not indices.is_meta and type(indices) in (Tensor, torch.nn.Parameter)
        if has_values and indices.numel():
            low, high = int(indices.min()), int(indices.max())
            if low < 0 or high >= size:
                raise ValueError(
                    f"Sampling: indices must be from 0 to {size - 1}, got {low} to {high}"
                )
    return True

"""What both directions between an array and its blocks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape, as_dims

from .._algebra._normal import Normal
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._roles import Role, why_on_both_sides
from .._base._sides import Side, dims_of
from .._base._sliceable import SliceableLinop
from .._kernels._dtype import summable
from .._kernels._shift import Shift, steps
from .._kernels._slices import is_empty
from .._kernels._windows import Windows, coverage, flat_positions, folded, unfolded
from ._block_arguments import Shape, default_array, default_blocks, meaning_of, window_counts


class BlockOperator(SliceableLinop):
    """The base of :class:`ArrayToBlocks` and :class:`BlocksToArray`: one is the other reversed.

    The parameters are those of ArrayToBlocks.
    """

    kept: Tensor
    """Flat positions of the blocks, or of the elements of a block, that a mask keeps."""

    def __init__(
        self,
        grid_size: Sequence[int],
        block_size: Sequence[int],
        stride: Sequence[int],
        mask: Tensor | None,
        batch_shape: Shape | None,
        array_shape: Shape | None,
        blocks_shape: Shape | None,
        mask_of: str | None,
        *,
        array_is_input: bool,
    ) -> None:
        name = type(self).__name__
        counts = window_counts(name, grid_size, block_size, stride)
        if mask is not None:
            mask_of = meaning_of(name, mask, counts, tuple(block_size), mask_of)
        elif mask_of is not None:
            raise ValueError(f"{name}: mask_of must come with a mask, got {mask_of!r} alone")
        array = default_array(len(counts)) if array_shape is None else as_dims(array_shape)
        default = default_blocks(len(counts), mask_of)
        blocks = default if blocks_shape is None else as_dims(blocks_shape)
        batch = as_dims(("...",) if batch_shape is None else batch_shape)
        for what, dims, needed in (
            ("array", array, len(counts)),
            ("blocks", blocks, len(default)),
        ):
            if len(dims) != needed or "..." in dims:
                raise ValueError(
                    f"{name}: {what}_shape must have {needed} dimensions for blocks of "
                    f"{tuple(block_size)}, got {dims}"
                )
        sides = ((*batch, *array), (*batch, *blocks))
        others = {"batch_shape": batch, "array_shape": array, "blocks_shape": blocks}
        if mask is not None:
            others["kept_shape"] = blocks[:1] if mask_of == "blocks" else blocks[-1:]
        super().__init__(NamedShape(*(sides if array_is_input else sides[::-1]), **others))
        self.grid_size, self.mask_of = tuple(grid_size), mask_of
        self.windows = tuple(
            Windows(0, count, step, length)
            for count, step, length in zip(counts, stride, block_size, strict=True)
        )
        self._are_within = True
        if mask is not None:
            self.register_weight("kept", mask.flatten().nonzero().flatten(), "kept_shape")

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return len(self.grid_size)

    @property
    def block_dims(self) -> tuple[tuple[NamedDimension | None, NamedDimension | None], ...]:
        """For each axis of the array the dimensions that count windows and elements of one."""
        dims: list[NamedDimension | None] = list(self.shape.other_shapes["blocks_shape"])
        nothing: list[NamedDimension | None] = [None] * self.ndim
        if self.mask_of == "blocks":
            dims = nothing + dims[1:]
        elif self.mask_of == "elements":
            dims = dims[:-1] + nothing
        return tuple(zip(dims[: self.ndim], dims[self.ndim :], strict=True))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``: of the array, of the windows or of what is kept."""
        return self.size_of_side(dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of the array, or of the windows and of what is kept."""
        names = dims_of(self.shape, side)
        if len(names) < max(len(self.ishape), len(self.oshape)):
            array = self.shape.other_shapes["array_shape"]
            known: dict[NamedDimension, int | None] = dict(zip(array, self.grid_size, strict=True))
        else:
            known = {dim: SliceableLinop.size(self, dim) for dim in names}
            for axis, (which, within) in zip(self.windows, self.block_dims, strict=True):
                known.update({which: axis.n_windows} if which else {})
                known.update({within: axis.length} if within else {})
        return tuple([known.get(dim) for dim in names])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: the array and the blocks have one name for it."""
        in_array = dim in self.shape.other_shapes["array_shape"]
        return why_on_both_sides(self.shape, dim) if in_array else None

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return what windows and a slice of the array share; see :meth:`NamedLinop.support`."""
        if self.role(dim) in (None, Role.OPAQUE):
            return None
        array = self.shape.other_shapes["array_shape"]
        pairs = zip(self.windows, self.grid_size, array, self.block_dims, strict=True)
        for axis, size, of_array, (which, within) in pairs:
            if dim == of_array:
                return axis.covered(size)
            if dim in (which, within):
                return axis.touching(size) if dim == which else axis.used(size)
        return None

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        if not window:
            return linop  # type: ignore[no-any-return]
        piece = linked(SliceableLinop.split(linop, tile))
        of_array = [window.get(dim) for dim in linop.shape.other_shapes["array_shape"]]
        pairs = zip(linop.windows, linop.block_dims, of_array, strict=True)
        windows = tuple(
            axis.cut(window.get(which), window.get(within), part)
            for axis, (which, within), part in pairs
        )
        sizes = tuple(
            size if part is None else part.stop - part.start
            for size, part in zip(linop.grid_size, of_array, strict=True)
        )
        are_within = all(map(Windows.are_within, windows, sizes))
        vars(piece).update(windows=windows, grid_size=sizes, _are_within=are_within)
        return piece

    adj_split = split

    def blocks_of(self, x: Tensor) -> Tensor:
        """Return the blocks of an array: a view where no mask keeps some and none ends outside."""
        if self._are_within:
            return self._blocks_within(x, self.windows, self.grid_size)
        onto = steps(self._onto_spans(self.windows))
        spans = [axis.span for axis in self.windows]
        return self._blocks_within(onto.applied(x), _from_zero(self.windows), spans)

    def array_of(self, blocks: Tensor) -> Tensor:
        """Return the array into which the blocks are summed."""
        blocks = summable(blocks)
        if self._are_within:
            return self._array_within(blocks, self.windows, self.grid_size)
        windows = list(self.windows)
        if self.mask_of != "blocks":  # leave out those that are outside
            pairs = zip(windows, self.grid_size, strict=True)
            touching = [axis.touching(size) for axis, size in pairs]
            first = blocks.ndim - len(self.shape.other_shapes["blocks_shape"])
            if any(map(is_empty, touching)):
                return blocks.new_zeros(*blocks.shape[:first], *self.grid_size)
            for number, which in enumerate(touching, first):
                blocks = blocks.narrow(number, which.start, which.stop - which.start)
            windows = [axis.cut(which) for axis, which in zip(windows, touching, strict=True)]
        spans = [axis.span for axis in windows]
        array = self._array_within(blocks, _from_zero(windows), spans)
        return steps([shift.reverse for shift in self._onto_spans(windows)]).applied(array)

    def _onto_spans(self, windows: Sequence[Windows]) -> list[Shift]:
        """Return how the axes of the array move to where the windows are."""
        pairs = zip(windows, self.grid_size, strict=True)
        return [
            Shift(number - self.ndim, size, axis.span, -axis.offset)
            for number, (axis, size) in enumerate(pairs)
        ]

    def _blocks_within(self, x: Tensor, windows: Sequence[Windows], grid: Sequence[int]) -> Tensor:
        if self.mask_of is None:
            return unfolded(x, windows)
        positions = self.positions(windows, grid)
        points = x.flatten(x.ndim - self.ndim)
        places = positions.flatten().expand(*points.shape[:-1], -1)
        return points.gather(-1, places).reshape(*points.shape[:-1], *positions.shape)

    def _array_within(
        self, blocks: Tensor, windows: Sequence[Windows], grid: Sequence[int]
    ) -> Tensor:
        if self.mask_of is None:
            return folded(blocks, windows, grid)
        positions = self.positions(windows, grid)
        values = blocks.flatten(blocks.ndim - positions.ndim)
        places = positions.flatten().expand(values.shape)
        array = blocks.new_zeros(*values.shape[:-1], torch.Size(grid).numel())
        array = array.scatter_add(-1, places, values)
        return array.reshape(*values.shape[:-1], *grid)

    def positions(self, windows: Sequence[Windows], grid: Sequence[int]) -> Tensor:
        """Return where in the flattened array the elements are that a mask keeps."""
        kept = self.weight_part("kept")
        starts, inside = [], []
        for offset, count, stride, length in windows:
            starts.append(offset + stride * torch.arange(count, device=kept.device))
            inside.append(torch.arange(length, device=kept.device))
        of_blocks, of_elements = (flat_positions(at, grid) for at in (starts, inside))
        if self.mask_of == "blocks":
            of_blocks = of_blocks.flatten()[kept]
        else:
            of_elements = of_elements.flatten()[kept]
        return of_blocks.reshape(*of_blocks.shape, *[1] * of_elements.ndim) + of_elements

    def counts(self, x: Tensor) -> Tensor:
        """Return in how many blocks each element of the array is, in the precision of ``x``."""
        if self.mask_of is not None:
            ones = torch.ones((), dtype=x.real.dtype, device=x.device)
            return self.array_of(ones.expand(self._sizes_of_blocks()))
        axes = [
            coverage(axis, size, x) for axis, size in zip(self.windows, self.grid_size, strict=True)
        ]
        return reduce(lambda product, axis: product.unsqueeze(-1) * axis, axes)

    def _sizes_of_blocks(self) -> list[int]:
        kept = [*self.weight_part("kept").shape]
        of_blocks, of_elements = ([axis[at] for axis in self.windows] for at in (1, 3))
        return kept + of_elements if self.mask_of == "blocks" else of_blocks + kept

    @staticmethod
    def counted(linop: Any, x: Tensor, /) -> Tensor:
        """Return an array times the number of blocks that each element is in."""
        x = summable(x)
        return linop.counts(x) * x  # type: ignore[no-any-return]

    def own_normal(self) -> NamedLinop:
        """Return the multiplication with the number of blocks that each element is in."""
        if self.normal_fn is not BlockOperator.counted:
            return super().own_normal()  # from blocks to blocks
        return Normal(linked(self), NamedShape(self.ishape))


def _from_zero(windows: Sequence[Windows]) -> list[Windows]:
    return [axis._replace(offset=0) for axis in windows]

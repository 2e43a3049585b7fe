"""Blocks of a grid: cut out of an array, and summed back into it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._normal import Normal
from .._base._linop import NamedLinop
from .._base._sizes import per_axis
from .._kernels._dtype import at_least_single, is_dense, not_a_tensor, summable
from .._kernels._picked_axis import PickedAxis, picked, put_back
from .._kernels._sliding_blocks import AxisBlocks, coverage, flat_positions, folded, unfolded
from .._numbers import is_size
from ._grid_names import Dims, GridNames, from_the_end, to_the_end
from ._grid_operator import GridOperator, axis_names


class BlockOperator(GridOperator[AxisBlocks]):
    """The base class of :class:`ArrayToBlocks` and :class:`BlocksToArray`."""

    saved_with: ClassVar[tuple[type, ...]] = (AxisBlocks,)

    grid_keys = ("array_shape", "blocks_shape")
    takes_any_batch = True

    kept: Tensor
    """Flat positions of the blocks, or of the elements of a block, that a mask keeps."""

    def __init__(
        self,
        grid_size: Sequence[int],
        block_size: Sequence[int],
        stride: Sequence[int],
        mask: Tensor | None = None,
        batch_shape: Dims | None = None,
        array_shape: Dims | None = None,
        blocks_shape: Dims | None = None,
        *,
        mask_of: str | None = None,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        name = type(self).__name__
        axes = axes_of(name, grid_size, block_size, stride)
        if mask is not None:
            mask_of = meaning_of(name, mask, axes, mask_of)
        elif mask_of is not None:
            raise ValueError(f"{name}: mask_of must come with a mask, got {mask_of!r} alone")
        ndim, why = len(axes), f"blocks of {tuple(block_size)}"
        of_blocks = ("B",) if mask_of == "blocks" else axis_names("B", ndim)
        default = (*of_blocks, *(("E",) if mask_of == "elements" else axis_names("E", ndim)))
        array_side = "array_shape", array_shape, axis_names("N", ndim)
        sides = array_side, ("blocks_shape", blocks_shape, default)
        idims, odims = sides if self._has_grid_as_input else sides[::-1]
        names = GridNames.of(name, (dims, shape, to), batch_shape, idims, odims, why)
        array, blocks = names[1:3] if self._has_grid_as_input else names[2:0:-1]
        others = {"array_shape": array, "blocks_shape": blocks}
        if mask is not None:
            others["kept_shape"] = blocks[:1] if mask_of == "blocks" else blocks[-1:]
        super().__init__(names.shape(**others), axes, names.is_free)
        self.mask_of = mask_of
        if mask is not None:
            self.register_weight("kept", mask.flatten().nonzero().flatten(), "kept_shape")

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return len(self._axes)

    @property
    def grid_size(self) -> tuple[int, ...]:
        """Size of the array."""
        return tuple([axis.size for axis in self._axes])

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """For each axis: the dimension of the array, of the blocks, and within a block."""
        shapes, ndim = self.shape.other_shapes, self.ndim
        dims: tuple[NamedDimension | None, ...] = shapes["blocks_shape"]
        selected = (None,) * ndim
        counting = selected if self.mask_of == "blocks" else dims[:ndim]
        within = selected if self.mask_of == "elements" else dims[-ndim:]
        return list(zip(shapes["array_shape"], counting, within, strict=True))

    def blocks_of(self, x: Tensor) -> Tensor:
        """Return the blocks of an array: a view, unless there is a mask or blocks end outside."""
        array, blocks = self.grid_axes if self._has_grid_as_input else self.grid_axes[::-1]
        return from_the_end(self._cut_out(to_the_end(x, array)), blocks)

    def array_of(self, x: Tensor) -> Tensor:
        """Return the array into which the blocks are summed."""
        array, blocks = self.grid_axes if self._has_grid_as_input else self.grid_axes[::-1]
        return from_the_end(self._summed(to_the_end(x, blocks)), array)

    def _cut_out(self, x: Tensor) -> Tensor:
        if self.mask_of is None:
            return unfolded(x, self._axes)
        moves, positions = self._kept_positions()
        points = picked(x, moves).flatten(x.ndim - self.ndim)
        indices = positions.flatten().expand(*points.shape[:-1], -1)
        return points.gather(-1, indices).reshape(*points.shape[:-1], *positions.shape)

    def _summed(self, blocks: Tensor) -> Tensor:
        blocks = summable(blocks)
        if self.mask_of is None:
            return folded(blocks, self._axes)
        moves, positions = self._kept_positions()
        values = blocks.to(at_least_single(blocks.dtype)).flatten(blocks.ndim - positions.ndim)
        indices = positions.flatten().expand(values.shape)
        spans = torch.Size([axis.n_output for axis in moves])
        array = values.new_zeros(*values.shape[:-1], spans.numel()).scatter_add(-1, indices, values)
        array = array.reshape(*values.shape[:-1], *spans)
        return put_back(array, moves).to(blocks.dtype)

    def _kept_positions(self) -> tuple[Sequence[PickedAxis], Tensor]:
        """Return the shifts of the array to the blocks, and the positions of kept elements."""
        kept = self.weight_part("kept")
        moves, axes = zip(*(axis.on_span() for axis in self._axes), strict=True)
        spans = [axis.size for axis in axes]
        starts = [axis.stride * torch.arange(axis.n_blocks, device=kept.device) for axis in axes]
        inside = [torch.arange(axis.length, device=kept.device) for axis in axes]
        of_blocks, of_elements = (flat_positions(at, spans) for at in (starts, inside))
        if self.mask_of == "blocks":
            of_blocks = of_blocks.flatten()[kept]
        else:
            of_elements = of_elements.flatten()[kept]
        return moves, of_blocks.reshape(*of_blocks.shape, *[1] * of_elements.ndim) + of_elements

    def counts(self, x: Tensor) -> Tensor:
        """Return the number of blocks of each element of the array, in the precision of ``x``."""
        if self.mask_of is None:
            axes = [coverage(axis, x) for axis in self._axes]
            return reduce(lambda product, axis: product.unsqueeze(-1) * axis, axes)
        ones = torch.ones((), dtype=x.real.dtype, device=x.device)
        return self._summed(ones.expand(self._kept_positions()[1].shape))

    def own_normal(self) -> NamedLinop:
        """Return the closed form from arrays to arrays, or the composition for blocks."""
        if self.normal_fn is NamedLinop.normal_fn:
            return super().own_normal()
        return Normal(self, NamedShape(self.ishape))

    @staticmethod
    def counted(linop: BlockOperator, x: Tensor, /) -> Tensor:
        """Return an array times the number of blocks of each element."""
        axes = linop.grid_axes[0 if linop._has_grid_as_input else 1]
        x = to_the_end(summable(x), axes)
        return from_the_end(linop.counts(x) * x, axes)


class ArrayToBlocks(BlockOperator):
    r"""The blocks of an array, :math:`y_{b,e} = x_{b s + e}` for block b, element e and stride s.

    Blocks may overlap or have gaps between them. Along an axis of length N there are
    :math:`\lfloor (N - L) / s \rfloor + 1` whole blocks of length L; elements behind the last block
    are in no block. The adjoint, :class:`BlocksToArray`, adds up all blocks, so the normal operator
    multiplies each element by the number of its blocks.

    Parameters
    ----------
    grid_size : sequence of int
        Size of the array, in any number of dimensions.
    block_size, stride : sequence of int
        One number for each dimension.
    mask : Tensor of bool, optional
        If its shape is the number of blocks along each axis, it selects blocks. If its shape is
        ``block_size``, it selects elements of every block. The selected ones become one dimension,
        in row-major order.
    batch_shape : sequence of dimensions, optional
        Dimensions before the array. Any dimensions by default.
    array_shape : sequence of dimensions, optional
        Dimensions of the array. They can be sliced, unless the blocks have them, too. By default
        Nx, Ny, Nz; with more than three, N, N1, ...
    blocks_shape : sequence of dimensions, optional
        Dimensions of the blocks, one for each axis that counts blocks, then one for each axis of a
        block. With a mask, one dimension takes the place of those from which the mask selects. All
        can be sliced. By default Bx, By, Bz, Ex, Ey, Ez, or B and E with indices; B for selected
        blocks, E for selected elements.
    mask_of : {"blocks", "elements"}, optional
        What the mask selects, if its shape does not decide it.
    dims : sequence of dimensions, optional
        Dimensions of the array, at any place; instead of the shapes above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: names as in ``blocks_shape``. If there is one name for each of ``dims``, it
        takes the place of that dimension. Otherwise all names are at the place of the first of
        ``dims``.

    Raises
    ------
    TypeError
        If the mask is not a tensor of booleans, or the sizes are not a sequence.
    ValueError
        If a size is not positive, a block is larger than the array, the mask has neither of the two
        shapes, both shapes are the same and ``mask_of`` is missing, or there is a wrong number of
        names.

    Notes
    -----
    Without a mask the result is a view of the array; do not write to it. The adjoint always sums in
    the same order. :meth:`NamedLinop.support` of a tile ignores the mask.

    Examples
    --------
    >>> import torch
    >>> A = ArrayToBlocks([5], [2], [2])
    >>> A(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    tensor([[1., 2.],
            [3., 4.]])
    >>> A.H(torch.ones(2, 2))
    tensor([1., 1., 1., 1., 0.])
    """

    fn = staticmethod(BlockOperator.blocks_of)
    adj_fn = staticmethod(BlockOperator.array_of)
    normal_fn = staticmethod(BlockOperator.counted)


class BlocksToArray(BlockOperator):
    r"""The sum of blocks at their places in an array, :math:`y_n = \sum_{b s + e = n} x_{b,e}`.

    It is the adjoint of :class:`ArrayToBlocks`, which describes the parameters. Here
    ``blocks_shape`` comes before ``array_shape``, ``dims`` are the dimensions of the blocks, and
    ``to`` those of the array. Elements that are in no block are zero.

    Examples
    --------
    >>> import torch
    >>> BlocksToArray([4], [2], [1])(torch.ones(3, 2))
    tensor([1., 2., 2., 1.])
    """

    _has_grid_as_input = False

    def __init__(
        self,
        grid_size: Sequence[int],
        block_size: Sequence[int],
        stride: Sequence[int],
        mask: Tensor | None = None,
        batch_shape: Dims | None = None,
        blocks_shape: Dims | None = None,
        array_shape: Dims | None = None,
        *,
        mask_of: str | None = None,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        shapes = batch_shape, array_shape, blocks_shape
        sizes = grid_size, block_size, stride
        super().__init__(*sizes, mask, *shapes, mask_of=mask_of, dims=dims, shape=shape, to=to)

    fn = staticmethod(BlockOperator.array_of)
    adj_fn = staticmethod(BlockOperator.blocks_of)
    adj_normal_fn = staticmethod(BlockOperator.counted)


def axes_of(
    name: str, grid_size: Sequence[int], block_size: Sequence[int], stride: Sequence[int]
) -> tuple[AxisBlocks, ...]:
    """Return the whole blocks along each axis."""
    given = {"grid_size": grid_size, "block_size": block_size, "stride": stride}.items()
    sizes = tuple([per_axis(name, argument, numbers) for argument, numbers in given])
    if not sizes[0] or len({len(size) for size in sizes}) != 1:
        raise ValueError(
            f"{name}: grid_size, block_size and stride must have one number per dimension, "
            f"got {sizes}"
        )
    axes = list(zip(*sizes, strict=True))
    if not all(all(map(is_size, axis)) and axis[1] <= axis[0] for axis in axes):
        raise ValueError(
            f"{name}: sizes and strides must be positive integers, and a block must fit into the "
            f"array, got block_size {sizes[1]} and stride {sizes[2]} for an array of {sizes[0]}"
        )
    return tuple(
        AxisBlocks(size, 0, (size - length) // step + 1, step, length)
        for size, length, step in axes
    )


def meaning_of(name: str, mask: Tensor, axes: Sequence[AxisBlocks], given: str | None) -> str:
    """Return whether a mask selects "blocks" or "elements" of every block."""
    if not is_dense(mask) or mask.dtype != torch.bool:
        raise not_a_tensor(name, "the mask", mask, "a tensor of booleans")
    shapes = {
        "blocks": tuple(axis.n_blocks for axis in axes),
        "elements": tuple(axis.length for axis in axes),
    }
    if given is not None and given not in shapes:
        raise ValueError(f"{name}: mask_of must be one of {[*shapes]}, got {given!r}")
    allowed = [given] if given else [*shapes]
    fitting = [what for what in allowed if tuple(mask.shape) == shapes[what]]
    if len(fitting) != 1:
        wanted = " or ".join(f"{shapes[what]} (of {what})" for what in allowed)
        raise ValueError(
            f"{name}: the mask must have the shape {wanted}, and mask_of must say which if "
            f"both shapes are equal, got shape {tuple(mask.shape)} and mask_of={given!r}"
        )
    return fitting[0]

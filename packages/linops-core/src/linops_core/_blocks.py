"""Blocks of a grid: windows cut out of an array, and summed back into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape, get_nd_shape

from ._copying import linked
from ._linop import NamedLinop
from ._normal import Normal
from ._sliceable import SliceableLinop
from ._windows import Windows, coverage, flat_positions, folded, unfolded

Shape: TypeAlias = Sequence[NamedDimension | str]


class _Blocks(SliceableLinop):
    """What both directions share: the geometry, and the two functions."""

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
        counts = _counts(name, grid_size, block_size, stride)
        if mask is not None:
            mask_of = _meaning_of(name, mask, counts, tuple(block_size), mask_of)
        elif mask_of is not None:
            raise ValueError(f"{name}: mask_of must come with a mask, got {mask_of!r} alone")
        array = _default_array(len(counts)) if array_shape is None else tuple(array_shape)
        default = _default_blocks(len(counts), mask_of)
        blocks = default if blocks_shape is None else tuple(blocks_shape)
        batch = ("...",) if batch_shape is None else tuple(batch_shape)
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
        array = self.shape.other_shapes["array_shape"]
        if dim in array:
            return self.grid_size[array.index(dim)]
        for axis, (which, within) in zip(self.windows, self.block_dims, strict=True):
            if dim in (which, within):
                return axis.n_windows if dim == which else axis.length
        return super().size(dim)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is of the array, where windows lie anywhere."""
        if dim in self.shape.other_shapes["array_shape"]:
            return "windows may reach over the end of a slice of the array"
        return None

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        if not window:
            return linop  # type: ignore[no-any-return]
        piece = linked(SliceableLinop.split(linop, tile))
        pairs = zip(linop.windows, linop.block_dims, strict=True)
        vars(piece)["windows"] = tuple(
            _cut(axis, window.get(which), window.get(within)) for axis, (which, within) in pairs
        )
        return piece

    adj_split = split

    def blocks_of(self, x: Tensor) -> Tensor:
        """Return the blocks of an array: a view, or a copy of what a mask keeps."""
        if self.mask_of is None:
            return unfolded(x, self.windows)
        positions = self.positions()
        points = x.flatten(x.ndim - self.ndim)
        places = positions.flatten().expand(*points.shape[:-1], -1)
        return points.gather(-1, places).reshape(*points.shape[:-1], *positions.shape)

    def array_of(self, blocks: Tensor) -> Tensor:
        """Return the array into which the blocks are summed."""
        if self.mask_of is None:
            return folded(blocks, self.windows, self.grid_size)
        positions = self.positions()
        values = blocks.flatten(blocks.ndim - positions.ndim)
        places = positions.flatten().expand(values.shape)
        array = blocks.new_zeros(*values.shape[:-1], torch.Size(self.grid_size).numel())
        array = array.scatter_add(-1, places, values)
        return array.reshape(*values.shape[:-1], *self.grid_size)

    def positions(self) -> Tensor:
        """Return where in the flattened array the elements are that a mask keeps."""
        kept = self.weight_part("kept")
        starts, inside = [], []
        for offset, count, stride, length in self.windows:
            starts.append(offset + stride * torch.arange(count, device=kept.device))
            inside.append(torch.arange(length, device=kept.device))
        of_blocks, of_elements = (flat_positions(at, self.grid_size) for at in (starts, inside))
        if self.mask_of == "blocks":
            of_blocks = of_blocks.flatten()[kept]
        else:
            of_elements = of_elements.flatten()[kept]
        return of_blocks.reshape(*of_blocks.shape, *[1] * of_elements.ndim) + of_elements

    def counts(self, x: Tensor) -> Tensor:
        """Return in how many blocks each element of the array is, in the precision of ``x``."""
        if self.mask_of is not None:
            ones = torch.ones((), dtype=x.real.dtype, device=x.device)
            return self.array_of(ones.expand(self.positions().shape))
        axes = [
            coverage(axis, size, x) for axis, size in zip(self.windows, self.grid_size, strict=True)
        ]
        return reduce(lambda product, axis: product.unsqueeze(-1) * axis, axes)

    @staticmethod
    def counted(linop: Any, x: Tensor, /) -> Tensor:
        """Return an array times the number of blocks that each element is in."""
        return linop.counts(x) * x  # type: ignore[no-any-return]

    def own_normal(self) -> NamedLinop:
        """Return the multiplication with the number of blocks that each element is in."""
        if self.normal_fn is not _Blocks.counted:
            return super().own_normal()  # from blocks to blocks
        return Normal(linked(self), NamedShape(self.ishape))


class ArrayToBlocks(_Blocks):
    r"""The blocks of an array, :math:`y_{b,e} = x_{b s + e}` for block b, element e and stride s.

    Blocks may overlap, or leave out elements between them. Only whole blocks are cut: along an
    axis of length N there are :math:`\lfloor (N - L) / s \rfloor + 1` blocks of length L, and
    elements behind the last one are in none. The adjoint, :class:`BlocksToArray`, sums what
    falls on one element and gives zero where there is no block; so the normal operator
    multiplies each element by the number of blocks that it is in.

    Parameters
    ----------
    grid_size : sequence of int
        Size of the array, in any number of dimensions.
    block_size, stride : sequence of int
        One per dimension.
    mask : Tensor of bool, optional
        Either which blocks are kept, of the shape of their number along each axis, or which
        elements of every block are, of shape ``block_size``. The dimensions of the mask become
        one, in row-major order.
    batch_shape : sequence of dimensions, optional
        Dimensions before the array; any by default.
    array_shape : sequence of dimensions, optional
        Of the array, which cannot be sliced. By default Nx, Ny, Nz, and N, N1, ... beyond three.
    blocks_shape : sequence of dimensions, optional
        One per axis that counts blocks, then one per axis of a block; with a mask one instead of
        those that it selects from. All can be sliced. By default Bx, By, Bz, Ex, Ey, Ez, or B and
        E with indices; B for kept blocks, E for kept elements.
    mask_of : {"blocks", "elements"}, optional
        What the mask selects, where its shape could mean both.

    Raises
    ------
    TypeError
        If the mask is no tensor of booleans.
    ValueError
        If a size is not positive or a block larger than the array, the mask has neither shape or
        may mean both, or the number of names is not as said.

    Notes
    -----
    Without a mask the result is a view of the array: nothing is copied, and it must not be written
    to. The order of summation in the adjoint never changes without a mask.

    Examples
    --------
    >>> A = ArrayToBlocks([5], [2], [2])
    >>> A(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    tensor([[1., 2.],
            [3., 4.]])
    >>> A.H(torch.ones(2, 2))
    tensor([1., 1., 1., 1., 0.])
    """

    def __init__(
        self,
        grid_size: Sequence[int],
        block_size: Sequence[int],
        stride: Sequence[int],
        mask: Tensor | None = None,
        batch_shape: Shape | None = None,
        array_shape: Shape | None = None,
        blocks_shape: Shape | None = None,
        *,
        mask_of: str | None = None,
    ) -> None:
        super().__init__(
            grid_size,
            block_size,
            stride,
            mask,
            batch_shape,
            array_shape,
            blocks_shape,
            mask_of,
            array_is_input=True,
        )

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the blocks of x: a view of it where there is no mask."""
        return linop.blocks_of(x)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the sum of the blocks x at their places."""
        return linop.array_of(x)  # type: ignore[no-any-return]

    normal_fn = staticmethod(_Blocks.counted)


class BlocksToArray(_Blocks):
    r"""The sum of blocks at their places in an array, :math:`y_n = \sum_{b s + e = n} x_{b,e}`.

    The adjoint of :class:`ArrayToBlocks`, where the parameters are described; here the shape of
    the blocks, which are the input, comes before that of the array. Elements that no block covers
    are zero.

    Examples
    --------
    >>> BlocksToArray([4], [2], [1])(torch.ones(3, 2))
    tensor([1., 2., 2., 1.])
    """

    def __init__(
        self,
        grid_size: Sequence[int],
        block_size: Sequence[int],
        stride: Sequence[int],
        mask: Tensor | None = None,
        batch_shape: Shape | None = None,
        blocks_shape: Shape | None = None,
        array_shape: Shape | None = None,
        *,
        mask_of: str | None = None,
    ) -> None:
        super().__init__(
            grid_size,
            block_size,
            stride,
            mask,
            batch_shape,
            array_shape,
            blocks_shape,
            mask_of,
            array_is_input=False,
        )

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the sum of the blocks x at their places."""
        return linop.array_of(x)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the blocks of x: a view of it where there is no mask."""
        return linop.blocks_of(x)  # type: ignore[no-any-return]

    adj_normal_fn = staticmethod(_Blocks.counted)


def _counts(
    name: str, grid_size: Sequence[int], block_size: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """Return how many whole blocks there are along each axis."""
    sizes = (tuple(grid_size), tuple(block_size), tuple(stride))
    if not sizes[0] or len({len(size) for size in sizes}) != 1:
        raise ValueError(
            f"{name}: grid_size, block_size and stride must have one number per dimension, "
            f"got {sizes}"
        )
    for size, length, step in zip(*sizes, strict=True):
        if not 1 <= length <= size or step < 1:
            raise ValueError(
                f"{name}: a block must have at least one element and fit into the array, and a "
                f"stride must be positive, got block_size {sizes[1]} and stride {sizes[2]} for an "
                f"array of {sizes[0]}"
            )
    return tuple((n - length) // step + 1 for n, length, step in zip(*sizes, strict=True))


def _meaning_of(
    name: str, mask: Tensor, counts: tuple[int, ...], block: tuple[int, ...], given: str | None
) -> str:
    """Return whether a mask selects "blocks" or "elements" of every block."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask)
        raise TypeError(f"{name}: the mask must be a tensor of booleans, got {kind}")
    shapes = {"blocks": counts, "elements": block}
    if given is not None and given not in shapes:
        raise ValueError(f"{name}: mask_of must be one of {[*shapes]}, got {given!r}")
    fitting = [what for what, shape in shapes.items() if tuple(mask.shape) == shape]
    if given in fitting:
        return given
    if given is not None or not fitting:
        wanted = [given] if given else [*shapes]
        raise ValueError(
            f"{name}: the mask must have the shape "
            f"{' or '.join(f'{shapes[what]} (of {what})' for what in wanted)}, "
            f"got shape {tuple(mask.shape)}"
        )
    if len(fitting) > 1:
        raise ValueError(
            f"{name}: mask_of must say what a mask of shape {counts} selects, the blocks or the "
            "elements of every block: both have this shape, got None"
        )
    return fitting[0]


def _cut(axis: Windows, which: slice | None, within: slice | None) -> Windows:
    """Return those windows of an axis, and that part of each of them, which a tile has."""
    offset, count, stride, length = axis
    if which is not None:
        offset, count = offset + which.start * stride, which.stop - which.start
    if within is not None:
        offset, length = offset + within.start, within.stop - within.start
    return Windows(offset, count, stride, length)


def _default_array(ndim: int) -> Shape:
    return get_nd_shape(ndim) if ndim <= 3 else _numbered("N", ndim)


def _default_blocks(ndim: int, mask_of: str | None) -> Shape:
    def letters(letter: str) -> tuple[str, ...]:
        if ndim > 3:
            return _numbered(letter, ndim)
        return tuple(f"{letter}{axis}" for axis in "xyz"[:ndim])

    blocks = ("B",) if mask_of == "blocks" else letters("B")
    return (*blocks, *(("E",) if mask_of == "elements" else letters("E")))


def _numbered(letter: str, ndim: int) -> tuple[str, ...]:
    return tuple(f"{letter}{axis or ''}" for axis in range(ndim))

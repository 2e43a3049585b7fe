"""Blocks of a grid: windows cut out of an array, and summed back into it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ._block_operator import BlockOperator
from ._grid_operator import Dims


class ArrayToBlocks(BlockOperator):
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
        Which blocks are kept, of the shape of their number along each axis, or which elements of
        every block, of shape ``block_size``. They become one dimension, in row-major order.
    batch_shape : sequence of dimensions, optional
        Dimensions before the array; any by default.
    array_shape : sequence of dimensions, optional
        Of the array, which can be sliced, but those that the blocks have too. By default Nx, Ny,
        Nz, and N, N1, ... beyond three.
    blocks_shape : sequence of dimensions, optional
        One per axis that counts blocks, then one per axis of a block; with a mask one instead of
        those that it selects from. All can be sliced. By default Bx, By, Bz, Ex, Ey, Ez, or B and
        E with indices; B for kept blocks, E for kept elements.
    mask_of : {"blocks", "elements"}, optional
        What the mask selects, where its shape could mean both.

    Raises
    ------
    TypeError
        If the mask is no tensor of booleans, or sizes are no sequence.
    ValueError
        If a size is not positive or a block larger than the array, the mask has neither shape or
        may mean both, or the number of names is not as said.

    Notes
    -----
    Without a mask the result is a view of the array, which must not be written to, and the order of
    summation in the adjoint never changes. :meth:`NamedLinop.support` of a tile with a mask is as
    if it kept everything.

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

    The adjoint of :class:`ArrayToBlocks`, where the parameters are described; here the shape of
    the blocks, which are the input, comes before that of the array. Elements that no block covers
    are zero.

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
    ) -> None:
        shapes = batch_shape, array_shape, blocks_shape
        super().__init__(grid_size, block_size, stride, mask, *shapes, mask_of=mask_of)

    fn = staticmethod(BlockOperator.array_of)
    adj_fn = staticmethod(BlockOperator.blocks_of)
    adj_normal_fn = staticmethod(BlockOperator.counted)

"""Operators side by side along a new dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nameddim import NamedDimension, NamedShape

from ..._base._dimensions import Side, dims_of
from ..._base._linop import NamedLinop
from ..._base._sizes import one_dimension
from ..._numbers import is_integer
from .._same_space import same_space
from ._blocks import Blocks
from ._side_by_side import SideBySide

DimAndIndex: TypeAlias = tuple[NamedDimension | str | None, int | None]


class Stack(SideBySide):
    r"""Operators side by side along a new dimension of the input, of the output or of both.

    With ``odim_and_idx`` alone, all operands get the whole input, and their outputs are stacked
    along the new dimension: :math:`y_k = A_k x`. With ``idim_and_idx`` alone, each operand gets its
    slice of the input, and the outputs are added: :math:`y = \sum_k A_k x_k`. With both it is
    :math:`y_k = A_k x_k`; if both are the same dimension, it is a batch dimension.

    The new dimension can be sliced: a tile holds only its operands. For a dimension that the
    operands have already, see :class:`Concat`.

    Parameters
    ----------
    *linops : NamedLinop
        At least one. All must have the same names and sizes.
    idim_and_idx, odim_and_idx : (dimension, int)
        Name of the new dimension and its index in the new shape; negative indices count from the
        end. Give at least one. No operand may have the name.
    threaded : bool
        Whether the operands run on several threads. These have the caller's gradient mode,
        inference mode, autocast, current device and streams. Results have the same bits as without
        threads. Gradients have the same bits on every run; gradients of shared tensors are added in
        another order than without threads. The operands run one after another while torch compiles,
        traces or transforms, and in modes that threads cannot take over, such as a default device.
    num_workers : int, optional
        Number of threads; by default the number of processors.

    Raises
    ------
    TypeError
        If an operand is not an operator, or an argument is not a pair of a dimension and an index.
    ValueError
        If no new dimension is given, an operand has it, its index is out of range, the operands
        differ in shape, or num_workers is not positive.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Scalar
    >>> A = Stack(Scalar(2.0, ("N",)), Scalar(3.0, ("N",)), odim_and_idx=("K", 0))
    >>> A(torch.ones(2))
    tensor([[2., 2.],
            [3., 3.]])
    >>> A.H(torch.ones(2, 2))
    tensor([5., 5.])
    """

    def __init__(
        self,
        *linops: NamedLinop,
        idim_and_idx: DimAndIndex = (None, None),
        odim_and_idx: DimAndIndex = (None, None),
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        operands = same_space("Stack", linops)
        ishape, of_input = with_new_dim("input", operands, idim_and_idx)
        oshape, of_output = with_new_dim("output", operands, odim_and_idx)
        blocks = of_input | of_output
        if not blocks:
            raise ValueError("Stack: idim_and_idx, odim_and_idx or both must be given, got neither")
        shape = NamedShape(ishape, oshape)
        super().__init__(shape, operands, blocks, threaded, num_workers, name)


def with_new_dim(
    side: Side, linops: Sequence[NamedLinop], dim_and_index: DimAndIndex
) -> tuple[tuple[NamedDimension, ...], dict[Side, Blocks]]:
    """Return the names of a side with the new dimension, and the blocks along it."""
    which, names = f"{side[0]}dim", dims_of(linops[0].shape, side)
    rule = f"Stack: {which}_and_idx must be a dimension and its index, got {dim_and_index!r}"
    if not isinstance(dim_and_index, (tuple, list)) or len(dim_and_index) != 2:
        raise TypeError(rule)
    dim, index = dim_and_index
    if dim is None:
        if index is not None:
            raise ValueError(rule)
        return names, {}
    new = one_dimension("Stack", f"the dimension of {which}_and_idx", dim)
    if not is_integer(index) or not -len(names) - 1 <= index <= len(names):
        raise ValueError(
            f"Stack: the index of {new} must be from {-len(names) - 1} to {len(names)} for "
            f"({', '.join(map(str, names))}), got {index}"
        )
    for linop in linops:
        if new in linop.dims or new not in NamedShape((new,)).dims:
            raise ValueError(
                f"Stack: {which} must be a name that no operand has, got {new} for "
                f"{linop.signature}, which has {', '.join(sorted(map(str, linop.dims)))}"
            )
    position = int(index) % (len(names) + 1)
    blocks = Blocks(position, (1,) * len(linops), is_new=True)
    return (*names[:position], new, *names[position:]), {side: blocks}

"""Operators of any shapes side by side: block columns, block rows, block diagonals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ..._base._arithmetic import is_scalar
from ..._base._dimensions import SIDES, Side, dims_of
from ..._base._linop import NamedLinop
from ..._base._places import composition_dims
from ..._base._sizes import per_axis
from .._same_space import REMEDY, check_operands, common_shape, same_space
from ._blocks import Blocks
from ._flat import flat_name, flat_operator, shared_batch
from ._side_by_side import SideBySide


class FlatSideBySide(SideBySide):
    """Operators of any shapes side by side, with one or both sides flat.

    A flat side has the batch dimensions of all operands in front. Its other dimensions are merged.
    """

    def __init__(
        self,
        linops: Sequence[NamedLinop],
        names: Mapping[Side, NamedDimension | str | None],
        weights: Iterable[complex | Tensor] | None,
        batch_dims: Sequence[NamedDimension | str] | None,
        sizes: Mapping[str, int] | None,
        threaded: bool,
        num_workers: int | None,
        name: str | None,
    ) -> None:
        owner = type(self).__name__
        check_operands(owner, linops)
        operands = weighted_operators(owner, linops, weights)
        for side in SIDES:
            if side not in names:
                operands = with_shared_side(owner, operands, side)
        whole: Side = "input" if "output" in names else "output"
        batch = shared_batch(owner, operands, whole, batch_dims)
        shared = known_lengths(owner, operands, whole) if len(names) == 1 else ()
        blocks: dict[Side, Blocks] = {}
        for side in names:
            dim = flat_name(owner, operands, side, batch, names[side])
            parts = [
                flat_operator(owner, linop, side, batch, dim, sizes, shared) for linop in operands
            ]
            operands = [part.linop for part in parts]
            lengths = tuple(part.length for part in parts)
            layouts = tuple(part.layout for part in parts)
            blocks[side] = Blocks(len(batch), lengths, layouts=layouts)
        flat = [dims_of(operands[0].shape, side)[-1] for side in names]
        try:
            operands = same_space(owner, operands, sized_apart=frozenset(flat))
        except ValueError as error:
            advice = "; batch_dims=() merges them" if len(names) == 2 else ""
            raise ValueError(f"{error}{advice}") from None
        shape = NamedShape(operands[0].ishape, operands[0].oshape)
        super().__init__(shape, operands, blocks, threaded, num_workers, name)


def weighted_operators(
    owner: str, linops: Sequence[NamedLinop], weights: Iterable[complex | Tensor] | None
) -> list[NamedLinop]:
    """Return each operator times its weight."""
    if weights is None:
        return list(linops)
    factors = per_axis(owner, "weights", tuple(weights))
    if len(factors) != len(linops):
        raise ValueError(
            f"{owner}: there must be one weight for each of {len(linops)} operands, "
            f"got {len(factors)}"
        )
    for number, weight in enumerate(factors):
        if not is_scalar(weight):
            raise TypeError(
                f"{owner}: weights must be numbers or tensors without dimensions, got {weight!r} "
                f"for operand {number + 1}"
            )
    return [weight * linop for weight, linop in zip(factors, linops, strict=True)]


def with_shared_side(owner: str, linops: Sequence[NamedLinop], side: Side) -> list[NamedLinop]:
    """Return the operators with the input, or output, that they share."""
    try:
        names = common_shape(dims_of(linop.shape, side) for linop in linops)
        if side == "input":
            return [linop.resolved(ishape=names) for linop in linops]
        return [linop.resolved(oshape=names) for linop in linops]
    except ValueError:
        shapes = "; ".join(linop.signature for linop in linops)
        raise ValueError(
            f"{owner}: all operands must have the same {side}, got {shapes}; {REMEDY}"
        ) from None


def known_lengths(owner: str, linops: Sequence[NamedLinop], side: Side) -> list[int | None]:
    """Return the lengths of the shared side, each from the first operator that knows it."""
    positions = range(len(dims_of(linops[0].shape, side)))
    pairs = [((n, side, at), (0, side, at)) for n in range(len(linops)) for at in positions]
    composition_dims(linops[0].shape, linops, pairs, owner)  # names operands as they were given
    columns = zip(*(linop.sizes(side) for linop in linops), strict=True)
    return [next((size for size in each if size is not None), None) for each in columns]


class VStack(FlatSideBySide):
    r"""Operators with one input and outputs of any shapes: :math:`x \mapsto (w_k A_k x)_k`.

    The output is one tensor. Its first dimensions are those that are a batch in every operand, such
    as slices Nz. All other dimensions of each output are merged, in order, and concatenated along
    the last dimension. So solvers and algebra work as on any operator. ``blocks`` splits an output
    into views of the shapes that the operands return. ``from_blocks`` joins such blocks to an
    output.

    The normal is the sum :math:`\sum_k |w_k|^2 A_k^H A_k`, in closed form where there is one. The
    operator can be sliced along the batch dimensions and along dimensions that only the input has.
    The last dimension can be sliced if it is a single, sliceable dimension in every operand. The
    normal can also be sliced along dimensions of the outputs.

    Parameters
    ----------
    *linops : NamedLinop
        At least one. Their inputs have the same names; a ``...`` stands for the names that the
        other operators have.
    weights : sequence of numbers or tensors without dimensions, optional
        Factors of the operands. For :math:`|A x - y|^2 + \lambda |G x|^2` give the square roots,
        ``weights=[1, lam ** 0.5]``. A tensor is not copied; a Parameter can be trained.
    odim : dimension, optional
        Name of the last dimension; by default Rows, or the next such name that is free.
    batch_dims : sequence of dimensions, optional
        Batch dimensions to keep; by default all that are a batch in every operand. With ``()``, the
        matrix consists of the matrices of the operands, one above the other.
    sizes : mapping of dimension to int, optional
        Sizes of the outputs that operands do not know.
    threaded, num_workers : optional
        As for :class:`Stack`.

    Raises
    ------
    TypeError
        If an operand is not an operator, or a weight is not a number.
    ValueError
        If the inputs differ in names or sizes, the size of a merged dimension is not known, a
        ``...`` would have to be merged, ``odim`` is the name of another dimension, or there is not
        one weight for each operand.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> A = Dense(torch.ones(2, 3, 2), ("P", "Q", "N"), ("N",), ("P", "Q"))
    >>> B = Dense(torch.ones(1, 2), ("M", "N"), ("N",), ("M",))
    >>> V = VStack(A, B, weights=[1, 10])
    >>> V.shape
    (N) -> (Rows)
    >>> y = V(torch.tensor([1.0, 2.0]))
    >>> y
    tensor([ 3.,  3.,  3.,  3.,  3.,  3., 30.])
    >>> [block.shape for block in V.blocks(y)]
    [torch.Size([2, 3]), torch.Size([1])]
    """

    def __init__(
        self,
        *linops: NamedLinop,
        weights: Iterable[complex | Tensor] | None = None,
        odim: NamedDimension | str | None = None,
        batch_dims: Sequence[NamedDimension | str] | None = None,
        sizes: Mapping[str, int] | None = None,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        names: dict[Side, NamedDimension | str | None] = {"output": odim}
        super().__init__(linops, names, weights, batch_dims, sizes, threaded, num_workers, name)


class HStack(FlatSideBySide):
    r"""Operators with inputs of any shapes and one output: :math:`(x_k)_k \mapsto \sum_k w_k A_k x_k`.

    The adjoint is the :class:`VStack` of the adjoints. The input of an HStack is built like the
    output of a VStack. ``from_blocks`` joins the inputs of the operands to one input, and
    ``blocks`` splits it into views.

    Parameters
    ----------
    *linops : NamedLinop
        At least one. Their outputs have the same names.
    idim : dimension, optional
        Name of the last dimension; by default Columns, or the next such name that is free.
    weights, batch_dims, sizes, threaded, num_workers : optional
        As for :class:`VStack`.

    Raises
    ------
    TypeError, ValueError
        As :class:`VStack`.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense, Identity
    >>> A = Dense(torch.ones(2, 3), ("M", "N"), ("N",), ("M",))
    >>> S = HStack(A, Identity(("M",)), batch_dims=(), sizes={"M": 2})
    >>> S.shape
    (Columns) -> (M)
    >>> S(S.from_blocks([torch.ones(3), torch.tensor([1.0, 2.0])]))
    tensor([4., 5.])
    """  # noqa: E501

    def __init__(
        self,
        *linops: NamedLinop,
        weights: Iterable[complex | Tensor] | None = None,
        idim: NamedDimension | str | None = None,
        batch_dims: Sequence[NamedDimension | str] | None = None,
        sizes: Mapping[str, int] | None = None,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        names: dict[Side, NamedDimension | str | None] = {"input": idim}
        super().__init__(linops, names, weights, batch_dims, sizes, threaded, num_workers, name)


class BlockDiag(FlatSideBySide):
    r"""Operators with separate inputs and outputs: :math:`(x_k)_k \mapsto (w_k A_k x_k)_k`.

    Both sides are flat, like the output of a :class:`VStack`. A batch dimension that every operand
    has stays a dimension of its own, and must have one size. With ``batch_dims=()`` it is merged,
    too.

    Parameters
    ----------
    *linops : NamedLinop
        At least one, of any shapes.
    idim, odim : dimension, optional
        Names of the last dimension of the input and of the output; by default Columns and Rows, or
        the next such names that are free.
    weights, batch_dims, sizes, threaded, num_workers : optional
        As for :class:`VStack`; ``sizes`` are sizes of inputs and outputs.

    Raises
    ------
    TypeError, ValueError
        As :class:`VStack`.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> A = Dense(torch.ones(2, 3), ("M", "N"), ("N",), ("M",))
    >>> B = Dense(torch.ones(1, 2, 2), ("P", "Q", "N"), ("Q", "N"), ("P",))
    >>> D = BlockDiag(A, B)
    >>> D.shape
    (Columns) -> (Rows)
    >>> D.blocks(D(torch.ones(7)))
    (tensor([3., 3.]), tensor([4.]))
    """

    def __init__(
        self,
        *linops: NamedLinop,
        weights: Iterable[complex | Tensor] | None = None,
        idim: NamedDimension | str | None = None,
        odim: NamedDimension | str | None = None,
        batch_dims: Sequence[NamedDimension | str] | None = None,
        sizes: Mapping[str, int] | None = None,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        names: dict[Side, NamedDimension | str | None] = {"input": idim, "output": odim}
        super().__init__(linops, names, weights, batch_dims, sizes, threaded, num_workers, name)

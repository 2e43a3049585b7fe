"""Operators side by side along a new dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from operator import methodcaller
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._add import Add
from .._algebra._composite import Composite
from .._algebra._normal_of import normal_of
from .._algebra._same_space import same_space, why_not_alike
from .._algebra._support import support_of_one, supports_side_by_side
from .._algebra._threads import check_workers, combined
from .._algebra._zero import Zero, zero_block, zero_tile
from .._base._linop import NamedLinop
from .._base._places import WHOLE, Seam, side_by_side
from .._base._sides import SIDES, Side, axis_of, dims_of
from .._base._sizes import one_dimension
from .._base._slicing import row_of_operand, tile_of
from .._base._tile import Supports, Window
from .._kernels._accumulate import accumulate, concatenate
from ._concat import Concat

DimAndIndex: TypeAlias = tuple[NamedDimension | str | None, int | None]
Dims: TypeAlias = tuple[NamedDimension, ...]


class Stack(Composite):
    r"""Operators side by side along a new dimension of the input, of the output or of both.

    With ``odim_and_idx`` alone all operands get the whole input, and their outputs are stacked
    along the new dimension: :math:`y_k = A_k x`. With ``idim_and_idx`` alone each gets its slice
    of the input, and the outputs are added: :math:`y = \sum_k A_k x_k`. With both it is
    :math:`y_k = A_k x_k`; if both are the same dimension, that is a batch dimension.

    Outputs are written into one tensor as they come, so that beside it there is one in memory,
    unless autograd has to keep them all. The new dimension can be sliced: a tile holds only the
    operands that it is about. With a dimension that exists already, see :class:`Concat`.

    Parameters
    ----------
    *linops : NamedLinop
        At least one; all of one shape, in names and in sizes.
    idim_and_idx, odim_and_idx : (dimension, int)
        Name of the new dimension and its index in the new shape, negative ones from the end.
        At least one must be given; the name is one that no operand has.
    threaded : bool
        Whether the operands run on threads of their own, in the state of the caller's: modes of
        gradients and of inference, autocast, current device, streams. Results are the same bits;
        gradients of what operands share are the same bits on every run, and those without threads
        but for the order in which they are added. Where torch compiles, traces or transforms, and
        where it is in a mode that cannot be carried over, such as that of a default device, they
        run one after another.
    num_workers : int, optional
        How many run at once; as many as there are processors by default.

    Raises
    ------
    TypeError
        If an operand is no operator, or what is new is no pair of a dimension and its index.
    ValueError
        If no new dimension is given, an operand has it, its index is not in the shape, the
        operands do not have one shape, or num_workers is not positive.

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

    _is_side_by_side = True

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
        ishape, of_input = with_new_dim("idim", operands, operands[0].ishape, idim_and_idx)
        oshape, of_output = with_new_dim("odim", operands, operands[0].oshape, odim_and_idx)
        if of_input is None and of_output is None:
            raise ValueError("Stack: idim_and_idx, odim_and_idx or both must be given, got neither")
        check_workers("Stack", num_workers)
        super().__init__(NamedShape(ishape, oshape), operands, name)
        self._input, self._output = of_input, of_output
        self.threaded, self.num_workers = threaded, num_workers

    @property
    def idim(self) -> NamedDimension | None:
        """The new dimension of the input."""
        return None if self._input is None else self.ishape[self._input]

    @property
    def odim(self) -> NamedDimension | None:
        """The new dimension of the output."""
        return None if self._output is None else self.oshape[self._output]

    def _seams(self) -> Iterable[Seam]:
        ishape, oshape = (
            tuple(dim for dim in names if dim != new)
            for names, new in ((self.ishape, self.idim), (self.oshape, self.odim))
        )
        new_at: dict[Side, int | None] = {"input": self._input, "output": self._output}
        for (_, side, here), there in side_by_side(NamedShape(ishape, oshape), self.linops):
            place = new_at[side]
            yield (WHOLE, side, here + (place is not None and here >= place)), there
        if self._input is not None and self._output is not None and self.idim == self.odim:
            yield (WHOLE, "input", self._input), (WHOLE, "output", self._output)

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the number of operands for the new dimension."""
        place = self._input if side == "input" else self._output
        return len(self.linops) if place == position else None

    def _check_sizes(self, shape: torch.Size) -> None:
        if self._input is not None:
            length = shape[axis_of(self._input, self.ishape)]
            if length != len(self.linops):
                raise ValueError(
                    f"{self.name}: {self.idim} must have size {len(self.linops)}, got {length} "
                    f"in an input of shape {tuple(shape)} for {self.shape}"
                )

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Apply each operand to its slice and put the results together."""
        return linop._apply_operands(x)  # type: ignore[no-any-return]

    adj_fn = fn  # the operands of an adjoint are adjoints, and its sides are swapped

    def _apply_operands(self, x: Tensor) -> Tensor:
        linops = self.linops
        inputs = (
            (x,) * len(linops)
            if self._input is None
            else x.unbind(axis_of(self._input, self.ishape))
        )
        pairs = list(zip(linops, inputs, strict=True))
        if self._output is None:
            # A Zero in a sum may not know the size of what it adds nothing to.
            pairs = [pair for pair in pairs if not isinstance(pair[0], Zero)] or pairs
        return combined(self._combine, pairs, self.threaded, self.num_workers)

    def _combine(self, results: Iterable[Tensor]) -> Tensor:
        if self._output is None:
            return accumulate(results)
        axis = axis_of(self._output, self.oshape)
        # Not a generator, which would hold a result while the next one is made.
        slices = map(methodcaller("unsqueeze", axis), results)
        return concatenate(slices, axis, (1,) * len(self.linops))

    def adjoint(self) -> NamedLinop:
        """Return the adjoints side by side, with input and output exchanged."""
        other = self.with_operands([linop.H for linop in self.linops], self.shape.H)
        vars(other).update(_input=self._output, _output=self._input)
        return other

    def conj(self) -> NamedLinop:
        """Return the conjugates side by side."""
        return self.with_operands([linop.conj() for linop in self.linops], self.shape)

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return what the operands are side by side; see :meth:`NamedLinop.without_fftshift`."""
        concerned = set(dims)
        return (
            None
            if concerned & {self.idim, self.odim}
            else self._operands_without_fftshift(concerned)
        )

    def own_normal(self) -> NamedLinop:
        """Return A^H A inside of the operands, where it can be.

        That of stacked outputs is the sum of the normals, that of operands with an input and an
        output of their own the normals side by side. Where inputs alone are stacked every operand
        meets every other.
        """
        if self._output is None:
            return normal_of(self)
        normals = [linop.normal() for linop in self.linops]
        if len({(normal.ishape, normal.oshape) for normal in normals}) > 1:
            return normal_of(self)  # operands that name what they sum over differently
        threads: dict[str, Any] = {"threaded": self.threaded, "num_workers": self.num_workers}
        if self._input is None:
            return Add(*normals, **threads)
        if any(self.idim in normal.dims for normal in normals):
            return normal_of(self)  # a name that a normal has given to what it sums over
        place = (self.idim, self._input)
        return Stack(*normals, idim_and_idx=place, odim_and_idx=place, **threads)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not the same thing in all operands."""
        return None if dim in (self.idim, self.odim) else why_not_alike(self, dim)

    support = support_of_one

    def _supports(self, dims: Iterable[NamedDimension]) -> Supports:
        """Return what holds the supports of all operands."""
        return supports_side_by_side(self, dims)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operands that the tile is about; see :meth:`NamedLinop.split`."""
        window = dict(linop.own_window(tile))
        if not window:
            return linop  # type: ignore[no-any-return]
        if linop._counts_two and window.keys() & {linop.idim, linop.odim}:
            return linop._cut_apart(window)  # type: ignore[no-any-return]
        new = linop.odim if linop.idim is None else linop.idim
        operands = linop.linops[window.pop(new, slice(None))]
        return linop.with_operands([linop._part(operand, window) for operand in operands])  # type: ignore[no-any-return]

    _split_of_row = split

    def _row(self, dim: NamedDimension, pieces: Sequence[slice]) -> Iterable[NamedLinop]:
        """Return the operands that each of the slices is about, or their tiles."""
        operands = self.linops
        if dim in (self.idim, self.odim) and self._counts_two:
            return [self._cut_apart({dim: piece}) for piece in pieces]
        if dim in (self.idim, self.odim):
            return self.with_operands_of_each(operands[piece] for piece in pieces)
        rows = zip(*(self._row_of(linop, dim, pieces) for linop in operands), strict=True)
        return self.with_operands_of_each(rows)

    @property
    def _counts_two(self) -> bool:
        """Whether a dimension of the input and another one of the output count the operands."""
        return None not in (self.idim, self.odim) and self.idim != self.odim

    def _cut_apart(self, window: Window) -> NamedLinop:
        """Return a part whose two new dimensions may be cut apart: zero where only one is left."""
        assert self.idim is not None and self.odim is not None
        operands, dims = self.linops, (self.idim, self.odim)
        pieces = [window.get(dim, slice(0, len(operands))) for dim in dims]
        rest = {dim: piece for dim, piece in window.items() if dim not in dims}
        lengths = {dim: piece.stop - piece.start for dim, piece in rest.items()}
        first = max(piece.start for piece in pieces)
        stop = min(piece.stop for piece in pieces)
        if first >= stop:
            of_new = [piece.stop - piece.start for piece in pieces]
            return zero_block(self, lengths | dict(zip(dims, of_new, strict=True)))
        parts: list[NamedLinop] = [
            self.with_operands([self._part(linop, rest) for linop in operands[first:stop]])
        ]
        sizes = [(stop - first,) * 2]
        before = (first - pieces[0].start, first - pieces[1].start)
        behind = (pieces[0].stop - stop, pieces[1].stop - stop)
        for at, ends in ((0, before), (len(operands), behind)):
            if any(ends):
                zero = zero_block(self, lengths | dict(zip(dims, ends, strict=True)))
                parts.insert(at, zero)
                sizes.insert(at, ends)
        if len(parts) == 1:
            return parts[0]
        isizes, osizes = zip(*sizes, strict=True)
        return Concat(*parts, idim=dims[0], odim=dims[1], isizes=isizes, osizes=osizes)

    def _row_of(
        self, linop: NamedLinop, dim: NamedDimension, pieces: Sequence[slice]
    ) -> Iterable[NamedLinop]:
        for piece, part in zip(pieces, row_of_operand(linop, dim, pieces), strict=True):
            yield self._part(linop, {dim: piece}) if part is None else part

    def _part(self, linop: NamedLinop, window: Window) -> NamedLinop:
        # The tiles of an inner dimension add up: an operand without it belongs to the first.
        if all(dim in linop.dims or piece.start == 0 for dim, piece in window.items()):
            return tile_of(linop, window)
        sizes: dict[Side, dict[NamedDimension, int]] = {}
        for side in SIDES:
            known = zip(dims_of(self.shape, side), self.sizes(side), strict=True)
            sizes[side] = {dim: size for dim, size in known if size is not None}
        return zero_tile(linop, window, sizes)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and operands with what they have of it."""
        ishape = tuple(dim for dim in shape.ishape if dim != self.idim)
        oshape = tuple(dim for dim in shape.oshape if dim != self.odim)
        operands = [linop.resolved(ishape=ishape, oshape=oshape) for linop in self.linops]
        other = self.with_operands(operands, shape)
        if self.idim is not None:
            vars(other)["_input"] = shape.ishape.index(self.idim)
        if self.odim is not None:
            vars(other)["_output"] = shape.oshape.index(self.odim)
        return other


def with_new_dim(
    which: str, linops: Iterable[NamedLinop], names: Dims, dim_and_index: DimAndIndex
) -> tuple[Dims, int | None]:
    """Return ``names`` with the new dimension among them, and its place.

    Raises
    ------
    TypeError
        If it is no pair of the two.
    ValueError
        If an operand has the dimension, or the index is not within the new shape.
    """
    if not isinstance(dim_and_index, (tuple, list)) or len(dim_and_index) != 2:
        raise TypeError(
            f"Stack: {which}_and_idx must be a dimension and its index, got {dim_and_index!r}"
        )
    dim, index = dim_and_index
    if dim is None:
        if index is not None:
            raise ValueError(
                f"Stack: {which}_and_idx must be a dimension and its index, got {dim_and_index}"
            )
        return names, None
    new = one_dimension("Stack", f"the dimension of {which}_and_idx", dim)
    if not isinstance(index, Integral) or not -len(names) - 1 <= index <= len(names):
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
    place = int(index) % (len(names) + 1)
    return (*names[:place], new, *names[place:]), place

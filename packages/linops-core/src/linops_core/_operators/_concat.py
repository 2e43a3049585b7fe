"""Operators side by side along a dimension: block columns, block rows, block diagonals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from nameddim import ND, NamedDimension, NamedShape

from .._algebra._add import Add
from .._algebra._composite import Composite
from .._algebra._normal_of import normal_of
from .._algebra._same_space import same_space, why_not_alike
from .._algebra._support import support_of_one, supports_side_by_side
from .._algebra._threads import check_workers, combined
from .._algebra._zero import Zero, zero_block, zero_tile
from .._base._linop import NamedLinop
from .._base._places import WHOLE, Seam
from .._base._roles import Role
from .._base._sides import SIDES, Side, axis_of, dims_of
from .._base._sizes import one_dimension, per_axis
from .._base._slicing import row_of_operand, tile_of
from .._base._tile import Supports, Window
from .._kernels._accumulate import accumulate as total
from .._kernels._accumulate import concatenate
from .._kernels._slices import hull, is_empty


@dataclass(frozen=True)
class Blocks:
    """How one side of a Concat is divided among its operands."""

    position: int
    """Of the divided dimension in the names of that side."""
    sizes: tuple[int, ...]
    """Length of each operand's block."""

    def axis(self, names: tuple[NamedDimension, ...]) -> int:
        """Return the axis of a tensor of shape ``names``; behind a ``...`` from the end."""
        return axis_of(self.position, names)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each block starts, and the last one ends."""
        return tuple(accumulate(self.sizes, initial=0))

    def within(self, piece: slice) -> Iterator[tuple[int, slice]]:
        """Yield (operand, slice of its block) for all blocks that ``piece`` touches."""
        starts = self.starts
        position = bisect_right(starts, piece.start) - 1
        while position < len(self.sizes) and starts[position] < piece.stop:
            first = starts[position]
            start, stop = max(piece.start - first, 0), min(piece.stop - first, self.sizes[position])
            if start < stop:
                yield position, slice(start, stop)
            position += 1

    def span(self, piece: slice) -> range:
        """Return the numbers from the first block that ``piece`` touches to the last one."""
        touched = [number for number, _ in self.within(piece)]
        return range(touched[0], touched[-1] + 1)

    def part(self, number: int, piece: slice) -> slice:
        """Return the slice of a block that is within ``piece``."""
        start, size = self.starts[number], self.sizes[number]
        return slice(max(piece.start - start, 0), min(piece.stop - start, size))


class Concat(Composite):
    r"""Operators side by side: their inputs, outputs or both are concatenated.

    With ``odim`` alone a block column: all operands get the whole input, and their outputs are
    concatenated along ``odim``. With ``idim`` alone a block row: each gets its block of the
    input, and the outputs are added. With both a block diagonal.

    Outputs are written into one tensor as they come, so that beside it there is one block in
    memory, unless autograd has to keep them all.

    Parameters
    ----------
    *linops : NamedLinop
        All of one shape, in names.
    idim, odim : dimension, optional
        At least one. A dimension that is in both shapes must be both.
    isizes, osizes : sequence of int, optional
        Length of each operand's block; needed where an operand does not know its size.
    threaded : bool
        Whether the operands run on threads of their own; see :class:`Stack`.
    num_workers : int, optional
        How many run at once; as many as there are processors by default.

    Raises
    ------
    ValueError
        If the shapes differ, a dimension is not there or its blocks are not known, or num_workers
        is not positive.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A, B = (Diagonal(torch.full((2,), w), ("N",)) for w in (2.0, 3.0))
    >>> Concat(A, B, idim="N", odim="N")(torch.ones(4))
    tensor([2., 2., 3., 3.])
    """

    _is_side_by_side = True

    def __init__(
        self,
        *linops: NamedLinop,
        idim: NamedDimension | str | None = None,
        odim: NamedDimension | str | None = None,
        isizes: Sequence[int] | None = None,
        osizes: Sequence[int] | None = None,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        check_workers("Concat", num_workers)
        if idim is None and odim is None:
            raise ValueError("Concat: idim, odim or both must be given, got neither")
        given = {"idim": idim, "odim": odim}.items()
        divided = frozenset(
            one_dimension("Concat", which, dim) for which, dim in given if dim is not None
        )
        blocks = same_space("Concat", linops, sized_apart=divided)
        shape = blocks[0].shape
        super().__init__(NamedShape(shape.ishape, shape.oshape), blocks, name)
        self._input = self._divided("idim", idim, self.ishape, isizes)
        self._output = self._divided("odim", odim, self.oshape, osizes)
        self.threaded, self.num_workers = threaded, num_workers
        for dim in divided & set(self.ishape) & set(self.oshape):
            if self.idim != self.odim or self.isizes != self.osizes:
                raise ValueError(
                    f"{self.name}: {dim} is in the input and in the output ({self.shape}), so it "
                    "must be both idim and odim with the same blocks, "
                    f"got idim={self.idim} {self.isizes}, odim={self.odim} {self.osizes}"
                )

    def _divided(
        self,
        which: str,
        dim: NamedDimension | str | None,
        names: tuple[NamedDimension, ...],
        sizes: Sequence[int] | None,
    ) -> Blocks | None:
        if dim is None:
            return None
        dim, side = ND.infer(dim), SIDES[which == "odim"]
        if dim not in names:
            raise ValueError(f"{self.name}: {which} must be one of {self.shape}, got {dim}")
        known = [linop.sizes(side)[names.index(dim)] for linop in self.linops]
        lengths = known if sizes is None else list(per_axis(self.name, f"{which[0]}sizes", sizes))
        if len(lengths) != len(known) or not all(_is_length(length) for length in lengths):
            raise ValueError(
                f"{self.name}: the size of {dim} must be known in every operand; give "
                f"{which[0]}sizes, integers from 0, one for each of {len(known)}; got {lengths}"
            )
        for linop, size, length in zip(self.linops, known, lengths, strict=True):
            if size not in (None, length):
                raise ValueError(
                    f"{self.name}: {dim} must have size {length} in {linop.name} "
                    f"({linop.shape}), got {size}"
                )
        return Blocks(names.index(dim), tuple(length for length in lengths if length is not None))

    @property
    def idim(self) -> NamedDimension | None:
        """The input dimension along which the operands stand side by side."""
        return None if self._input is None else self.ishape[self._input.position]

    @property
    def odim(self) -> NamedDimension | None:
        """The output dimension along which the operands stand side by side."""
        return None if self._output is None else self.oshape[self._output.position]

    @property
    def isizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``idim``; empty where that is None."""
        return () if self._input is None else self._input.sizes

    @property
    def osizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``odim``; empty where that is None."""
        return () if self._output is None else self._output.sizes

    def _seams(self) -> Iterable[Seam]:
        yield from super()._seams()
        if self._input is not None and self._output is not None and self.idim == self.odim:
            yield (WHOLE, "input", self._input.position), (WHOLE, "output", self._output.position)

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the sum of the blocks along the divided dimension."""
        blocks = self._input if side == "input" else self._output
        return sum(blocks.sizes) if blocks is not None and blocks.position == position else None

    def _check_sizes(self, shape: torch.Size) -> None:
        if self._input is not None:
            axis, size = self._input.axis(self.ishape), sum(self._input.sizes)
            if shape[axis] != size:
                raise ValueError(
                    f"{self.name}: {self.idim} must have size {size}, got {shape[axis]} "
                    f"in an input of shape {tuple(shape)} for {self.shape}"
                )

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Apply each operand to its block and put the results together."""
        return linop._apply_blocks(x)  # type: ignore[no-any-return]

    adj_fn = fn  # the operands of an adjoint are adjoints, and its sides are swapped

    def _apply_blocks(self, x: Tensor) -> Tensor:
        inputs = (
            repeat(x)
            if self._input is None
            else torch.split(x, list(self._input.sizes), dim=self._input.axis(self.ishape))
        )
        blocks = list(zip(self.linops, inputs, strict=False))
        if self._output is None:
            # A Zero in a sum may not know the size of what it adds nothing to.
            blocks = [b for b in blocks if not isinstance(b[0], Zero)] or blocks
        return combined(self._combine, blocks, self.threaded, self.num_workers)

    def _combine(self, results: Iterable[Tensor]) -> Tensor:
        if self._output is None:
            return total(results)
        return concatenate(results, self._output.axis(self.oshape), self._output.sizes)

    def adjoint(self) -> NamedLinop:
        """Return the adjoints side by side, with input and output exchanged."""
        other = self.with_operands([linop.H for linop in self.linops], self.shape.H)
        vars(other).update(_input=self._output, _output=self._input)
        return other

    def conj(self) -> NamedLinop:
        """Return the conjugates side by side."""
        return self.with_operands([linop.conj() for linop in self.linops], self.shape)

    def own_normal(self) -> NamedLinop:
        """Return A^H A inside of the operands, where it can be.

        The normal of a block column is the sum of the normals, that of a block diagonal the
        normals side by side: intermediate results are as large as one block. In a block row
        every block meets every other.
        """
        if self._output is None:
            return normal_of(self)
        normals = [linop.normal() for linop in self.linops]
        if len({(normal.ishape, normal.oshape) for normal in normals}) > 1:
            return normal_of(self)  # operands that name what they sum over differently
        threads: dict[str, Any] = {"threaded": self.threaded, "num_workers": self.num_workers}
        if self._input is None:
            return Add(*normals, **threads)
        sizes = self._input.sizes
        landing = normals[0].oshape[self._input.position]
        return Concat(*normals, idim=self.idim, odim=landing, isizes=sizes, osizes=sizes, **threads)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not the same thing in all operands."""
        return why_not_alike(self, dim)

    support = support_of_one

    def _supports(self, dims: Iterable[NamedDimension]) -> Supports:
        """Return what holds the supports of all operands."""
        found: Supports = dict.fromkeys(dims)
        divided = dict(self._sides())
        found |= supports_side_by_side(self, [dim for dim in found if dim not in divided])
        for dim, blocks in divided.items():
            if dim in found and self.role(dim) in (Role.INPUT, Role.OUTPUT):
                found[dim] = self._support_of_blocks(dim, blocks)
        return found

    def _support_of_blocks(self, dim: NamedDimension, blocks: Blocks) -> slice | None:
        pieces = []
        for linop, size, start in zip(self.linops, blocks.sizes, blocks.starts, strict=False):
            piece = linop._supports([dim])[dim] or slice(0, size)
            if not is_empty(piece):
                pieces.append(slice(start + piece.start, start + piece.stop))
        whole = slice(0, blocks.starts[-1])
        return None if (piece := hull(pieces)) == whole else piece

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the blocks that the tile touches; see :meth:`NamedLinop.split`."""
        return linop._cut(dict(linop.own_window(tile)))  # type: ignore[no-any-return]

    def _cut(self, window: dict[NamedDimension, slice]) -> NamedLinop:
        if self._divides_two and window.keys() & {self.idim, self.odim}:
            return self._cut_apart(window)
        divided = self.idim if self.idim is not None else self.odim
        blocks = self._input or self._output
        assert divided is not None and blocks is not None
        operands = self.linops
        if divided not in window:
            parts = [self._operand_part(i, linop, window) for i, linop in enumerate(operands)]
            return self.with_operands(parts) if window else self
        chosen = list(blocks.within(window.pop(divided)))
        parts = [
            self._operand_part(i, operands[i], {**window, divided: piece}) for i, piece in chosen
        ]
        return self._side_by_side(blocks, chosen, parts)

    _split_of_row = split

    def _row(self, dim: NamedDimension, pieces: Sequence[slice]) -> Iterable[NamedLinop]:
        """Return the blocks that each of the slices touches, or the tiles of all blocks."""
        operands, blocks = self.linops, self._input or self._output
        assert blocks is not None
        if dim not in (self.idim, self.odim):
            rows = [self._row_of(i, linop, dim, pieces) for i, linop in enumerate(operands)]
            yield from self.with_operands_of_each(zip(*rows, strict=True))
            return
        if self._divides_two:
            yield from (self._cut_apart({dim: piece}) for piece in pieces)
            return
        chosen = [list(blocks.within(piece)) for piece in pieces]
        of_each: dict[int, list[slice]] = {}
        for i, piece in chain.from_iterable(chosen):
            of_each.setdefault(i, []).append(piece)
        tiles = {i: iter(operands[i].tiles_along(dim, of_one)) for i, of_one in of_each.items()}
        for touched in chosen:
            yield self._side_by_side(blocks, touched, [next(tiles[i]) for i, _ in touched])

    def _row_of(
        self, position: int, linop: NamedLinop, dim: NamedDimension, pieces: Sequence[slice]
    ) -> Iterable[NamedLinop]:
        for piece, part in zip(pieces, row_of_operand(linop, dim, pieces), strict=True):
            yield self._operand_part(position, linop, {dim: piece}) if part is None else part

    def _side_by_side(
        self, blocks: Blocks, chosen: Sequence[tuple[int, slice]], parts: Sequence[NamedLinop]
    ) -> NamedLinop:
        """Return the operator of what is left of some blocks."""
        if len(parts) == 1:
            return parts[0]
        cut = Blocks(blocks.position, tuple(piece.stop - piece.start for _, piece in chosen))
        other = self.with_operands(parts)
        if self._input is not None:
            vars(other)["_input"] = replace(cut, position=self._input.position)
        if self._output is not None:
            vars(other)["_output"] = replace(cut, position=self._output.position)
        return other

    @property
    def _divides_two(self) -> bool:
        """Whether the blocks divide a dimension of the input and another one of the output."""
        return None not in (self.idim, self.odim) and self.idim != self.odim

    def _cut_apart(self, window: Window) -> NamedLinop:
        """Return a part of a block diagonal whose two divided dimensions may be cut apart.

        Blocks of which the part has only the input or only the output are zero there. Those before
        the others are one block together, and so are those behind them.
        """
        operands, sides = self.linops, self._sides()
        pieces = {dim: window.get(dim, slice(0, blocks.starts[-1])) for dim, blocks in sides}
        rest = {dim: piece for dim, piece in window.items() if dim not in pieces}
        spans = [blocks.span(pieces[dim]) for dim, blocks in sides if dim in window]
        first = max(span.start for span in spans)
        stop = min(span.stop for span in spans)
        lengths = {dim: piece.stop - piece.start for dim, piece in rest.items()}
        if first >= stop:
            whole = {dim: piece.stop - piece.start for dim, piece in pieces.items()}
            return zero_block(self, lengths | whole)
        before, behind, sizes = {}, {}, {}
        for dim, blocks in sides:
            piece = pieces[dim]
            before[dim] = max(0, blocks.starts[first] - piece.start)
            behind[dim] = max(0, piece.stop - blocks.starts[stop])
            inside = [blocks.part(number, piece) for number in range(first, stop)]
            sizes[dim] = [part.stop - part.start for part in inside]
        parts = []
        for number in range(first, stop):
            own = dict(rest)
            for dim, blocks in sides:
                part = blocks.part(number, pieces[dim])
                if part != slice(0, blocks.sizes[number]):
                    own[dim] = part
            parts.append(self._operand_part(number, operands[number], own))
        if any(before.values()):
            parts.insert(0, zero_block(self, lengths | before))
            sizes = {dim: [before[dim], *of_parts] for dim, of_parts in sizes.items()}
        if any(behind.values()):
            parts.append(zero_block(self, lengths | behind))
            sizes = {dim: [*of_parts, behind[dim]] for dim, of_parts in sizes.items()}
        if len(parts) == 1:
            return parts[0]
        other = self.with_operands(parts)
        for name, (dim, blocks) in zip(("_input", "_output"), sides, strict=True):
            vars(other)[name] = Blocks(blocks.position, tuple(sizes[dim]))
        return other

    def _sides(self) -> list[tuple[NamedDimension, Blocks]]:
        """Return the divided dimensions with their blocks, input first."""
        both = ((self.idim, self._input), (self.odim, self._output))
        return [(dim, blocks) for dim, blocks in both if dim is not None and blocks is not None]

    def _operand_part(self, position: int, linop: NamedLinop, window: Window) -> NamedLinop:
        # The tiles of an inner dimension add up: an operand without it belongs to the first.
        if all(dim in linop.dims or piece.start == 0 for dim, piece in window.items()):
            return tile_of(linop, window)
        return zero_tile(linop, window, self._operand_sizes(position))

    def _operand_sizes(self, number: int) -> dict[Side, dict[NamedDimension, int]]:
        """Return what is known here of the sizes of an operand."""
        found: dict[Side, dict[NamedDimension, int]] = {}
        for side in SIDES:
            blocks = self._input if side == "input" else self._output
            names = dims_of(self.shape, side)
            sizes = dict(zip(names, self.sizes(side), strict=True))
            if blocks is not None:
                sizes[names[blocks.position]] = blocks.sizes[number]
            found[side] = {dim: size for dim, size in sizes.items() if size is not None}
        return found

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, in which the blocks may be at another place."""
        other = super().resolved_to(shape)
        if self._input is not None and self.idim is not None:
            position = shape.ishape.index(self.idim)
            vars(other)["_input"] = replace(self._input, position=position)
        if self._output is not None and self.odim is not None:
            position = shape.oshape.index(self.odim)
            vars(other)["_output"] = replace(self._output, position=position)
        return other


def _is_length(value: object) -> bool:
    return isinstance(value, Integral) and int(value) >= 0

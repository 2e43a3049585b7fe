"""Operators side by side along a dimension: block columns, block rows, block diagonals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, repeat
from numbers import Integral
from operator import methodcaller
from typing import Self, TypeGuard

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._add import Add
from .._algebra._composite import Composite
from .._algebra._normal_of import normal_of
from .._algebra._same_space import same_space, why_not_alike
from .._algebra._supports import supports_side_by_side
from .._algebra._threads import check_workers, combined
from .._algebra._zero import Zero, lengths_of, zero_between
from .._base._linop import NamedLinop, tile_of
from .._base._places import WHOLE, Seam, side_by_side
from .._base._roles import Role
from .._base._sides import SIDES, Side, axis_of, dims_of
from .._base._sizes import one_dimension, per_axis
from .._base._tile import Supports, Window
from .._kernels._accumulate import accumulate as total
from .._kernels._accumulate import concatenate
from .._kernels._slices import hull, is_empty


@dataclass(frozen=True)
class Blocks:
    """How one side of operators side by side is divided among them."""

    position: int
    """Of the divided dimension in the names of that side."""
    sizes: tuple[int, ...]
    """Length of each operand's block."""
    is_new: bool = False
    """Whether the operands do not have the dimension: each has one index of it."""

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each block starts, and the last one ends."""
        return tuple(accumulate(self.sizes, initial=0))

    def touched(self, piece: slice) -> range:
        """Return the numbers of the blocks that ``piece`` touches, from the first to the last."""
        first = bisect_right(self.starts, piece.start) - 1
        return range(first, bisect_right(self.starts, piece.stop - 1))

    def part(self, number: int, piece: slice) -> slice:
        """Return the slice of a block that is within ``piece``."""
        start, size = self.starts[number], self.sizes[number]
        return slice(max(piece.start - start, 0), min(piece.stop - start, size))


class SideBySide(Composite):
    """Operators that have each a block of the input, of the output or of both."""

    _is_side_by_side = True

    def __init__(
        self,
        shape: NamedShape,
        linops: Sequence[NamedLinop],
        blocks: Mapping[Side, Blocks],
        threaded: bool,
        num_workers: int | None,
        name: str | None,
    ) -> None:
        check_workers(type(self).__name__, num_workers)
        super().__init__(shape, linops, name)
        self._blocks = dict(blocks)
        self.threaded, self.num_workers = threaded, num_workers

    @property
    def idim(self) -> NamedDimension | None:
        """The input dimension along which the operands stand side by side."""
        return self._dims.get("input")

    @property
    def odim(self) -> NamedDimension | None:
        """The output dimension along which the operands stand side by side."""
        return self._dims.get("output")

    @property
    def _dims(self) -> dict[Side, NamedDimension]:
        """The divided dimension of each side that has one, that of the input first."""
        blocks = self._blocks.items()
        return {side: dims_of(self.shape, side)[own.position] for side, own in blocks}

    @property
    def _divided(self) -> dict[NamedDimension, Blocks]:
        """The divided dimensions with their blocks, that of the input first."""
        return {dim: self._blocks[side] for side, dim in self._dims.items()}

    @property
    def _is_new(self) -> bool:
        return any(blocks.is_new for blocks in self._blocks.values())

    def _with(
        self, linops: Iterable[NamedLinop], shape: NamedShape | None = None, **changed: object
    ) -> Self:
        other = self.with_operands(linops, shape)
        vars(other).update(changed)
        return other

    def _without_new(self, names: Sequence[NamedDimension]) -> tuple[NamedDimension, ...]:
        """Return those names of the input or the output that the operands have."""
        return tuple([d for d in names if not (self._is_new and d in (self.idim, self.odim))])

    def _seams(self) -> Iterable[Seam]:
        old = NamedShape(self._without_new(self.ishape), self._without_new(self.oshape))
        for (_, side, here), there in side_by_side(old, self.linops):
            blocks, place = self._blocks.get(side), here
            if blocks is not None:
                place += blocks.is_new and here >= blocks.position
                if place == blocks.position:
                    continue
            yield (WHOLE, side, place), there
        if len(self._blocks) == 2 and self.idim == self.odim:
            at = [self._blocks[side].position for side in SIDES]
            yield (WHOLE, "input", at[0]), (WHOLE, "output", at[1])

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the sum of the blocks along the divided dimension."""
        blocks = self._blocks.get(side)
        return sum(blocks.sizes) if blocks is not None and blocks.position == position else None

    @staticmethod
    def fn(linop: SideBySide, x: Tensor, /) -> Tensor:
        """Apply each operand to its block and put the results together."""
        pairs = list(zip(linop.linops, linop.blocks_of(x), strict=False))
        if linop.odim is None:
            # A Zero in a sum may not know the size of what it adds nothing to.
            pairs = [pair for pair in pairs if not isinstance(pair[0], Zero)] or pairs
        return combined(linop.put_together, pairs, linop.threaded, linop.num_workers)

    adj_fn = fn  # the operands of an adjoint are adjoints, and its sides are swapped

    def blocks_of(self, x: Tensor) -> Iterable[Tensor]:
        """Return the part of the input that each operand gets."""
        blocks = self._blocks.get("input")
        if blocks is None:
            return repeat(x)
        axis = axis_of(blocks.position, self.ishape)
        return x.unbind(axis) if blocks.is_new else torch.split(x, list(blocks.sizes), dim=axis)

    def put_together(self, results: Iterable[Tensor]) -> Tensor:
        """Return the sum of the results, or what they are side by side."""
        blocks = self._blocks.get("output")
        if blocks is None:
            return total(results)
        axis = axis_of(blocks.position, self.oshape)
        if blocks.is_new:
            # Not a generator, which would hold a result while the next one is made.
            results = map(methodcaller("unsqueeze", axis), results)
        return concatenate(results, axis, blocks.sizes)

    def adjoint(self) -> NamedLinop:
        """Return the adjoints side by side, with input and output exchanged."""
        operands = [linop.H for linop in self.linops]
        pairs = zip(SIDES, reversed(SIDES), strict=True)
        swapped = {side: self._blocks[other] for side, other in pairs if other in self._blocks}
        return self._with(operands, self.shape.H, _blocks=swapped)

    conj = Composite._conj_of_operands

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return what the operands are side by side; see :meth:`NamedLinop.without_fftshift`."""
        concerned = set(dims)
        if concerned & {self.idim, self.odim}:
            return None
        return self._operands_without_fftshift(concerned)

    def own_normal(self) -> NamedLinop:
        """Return the sum of the normals of a block column, those of a block diagonal side by side.

        In a block row every block meets every other.
        """
        if "output" not in self._blocks:
            return normal_of(self)
        first, *others = normals = [linop.normal() for linop in self.linops]
        if any((normal.ishape, normal.oshape) != (first.ishape, first.oshape) for normal in others):
            return normal_of(self)  # operands that name what they sum over differently
        if (blocks := self._blocks.get("input")) is None:
            return Add(*normals, threaded=self.threaded, num_workers=self.num_workers)
        sides = (first.ishape, first.oshape)
        if blocks.is_new:
            new, at = self._dims["input"], blocks.position
            if any(new in normal.dims for normal in normals):
                return normal_of(self)  # a name that a normal has given to what it sums over
            ishape, oshape = ((*names[:at], new, *names[at:]) for names in sides)
            sides = (ishape, oshape)
        shape = NamedShape(*sides)
        return self._with(normals, shape, _blocks=dict.fromkeys(SIDES, blocks), _name=None)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not the same thing in all operands."""
        if self._is_new and dim in (self.idim, self.odim):
            return None
        return why_not_alike(self, dim)

    support = Composite._support_of_one

    def _supports(self, dims: Iterable[NamedDimension]) -> Supports:
        """Return what holds the supports of all operands."""
        found: Supports = dict.fromkeys(dims)
        divided = self._divided
        found |= supports_side_by_side(self, [dim for dim in found if dim not in divided])
        for dim, blocks in divided.items():
            if dim not in found or self.role(dim) not in (Role.INPUT, Role.OUTPUT):
                continue
            pieces = []
            for linop, size, start in zip(self.linops, blocks.sizes, blocks.starts, strict=False):
                piece = linop._supports([dim])[dim] or slice(0, size)
                if not is_empty(piece):
                    pieces.append(slice(start + piece.start, start + piece.stop))
            own = hull(pieces)
            found[dim] = None if own == slice(0, blocks.starts[-1]) else own
        return found

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the blocks that each of the windows touches."""
        return [self._cut(window) for window in windows]

    def _cut(self, window: Window) -> NamedLinop:
        """Return the operands that the window touches, cut by it.

        Where the input and the output of a block diagonal are cut apart, what has only one of them
        is zero: one block before the others, and one behind them.
        """
        divided = self._divided
        rest = {dim: piece for dim, piece in window.items() if dim not in divided}
        lengths = lengths_of(rest)
        pieces = {d: window.get(d, slice(0, blocks.starts[-1])) for d, blocks in divided.items()}
        spans = [divided[dim].touched(piece) for dim, piece in window.items() if dim in divided]
        first = max([span.start for span in spans], default=0)
        stop = min([span.stop for span in spans], default=len(self.linops))
        if first >= stop:
            whole = lengths_of(pieces)
            return zero_between(self, lengths | whole, complete=True)
        parts: list[NamedLinop] = []
        sizes: dict[NamedDimension, list[int]] = {dim: [] for dim in divided}
        for number in range(first, stop):
            own = dict(rest)
            for dim, blocks in divided.items():
                part = blocks.part(number, pieces[dim])
                sizes[dim].append(part.stop - part.start)
                if not blocks.is_new and sizes[dim][-1] != blocks.sizes[number]:
                    own[dim] = part
            parts.append(self._operand_part(number, own))
        before = {d: max(0, divided[d].starts[first] - piece.start) for d, piece in pieces.items()}
        behind = {d: max(0, piece.stop - divided[d].starts[stop]) for d, piece in pieces.items()}
        if not any(before.values()) and not any(behind.values()):
            return self._of_parts(parts, sizes)
        if self._is_new:
            parts, sizes = [self._of_parts(parts, sizes)], {dim: [len(parts)] for dim in sizes}
        for place, zeros in ((len(parts), behind), (0, before)):
            if any(zeros.values()):
                parts.insert(place, zero_between(self, lengths | zeros, complete=True))
                for dim, of_parts in sizes.items():
                    of_parts.insert(place, zeros[dim])
        isizes, osizes = sizes.values()
        return Concat(
            *parts,
            idim=self.idim,
            odim=self.odim,
            isizes=isizes,
            osizes=osizes,
            threaded=self.threaded,
            num_workers=self.num_workers,
        )

    def _of_parts(
        self, parts: Sequence[NamedLinop], sizes: Mapping[NamedDimension, Sequence[int]]
    ) -> NamedLinop:
        """Return the operator of what is left of the operands; sizes are those of each."""
        if len(parts) == 1 and not self._is_new:
            return parts[0]
        blocks = {
            side: replace(self._blocks[side], sizes=tuple(sizes[dim]))
            for side, dim in self._dims.items()
        }
        return self._with(parts, _blocks=blocks)

    def _operand_part(self, number: int, window: Window) -> NamedLinop:
        linop = self._operand(number)
        # The tiles of an inner dimension add up: an operand without it belongs to the first.
        if all(dim in linop.dims or piece.start == 0 for dim, piece in window.items()):
            return tile_of(linop, window) if window else linop
        sizes: dict[Side, dict[NamedDimension, int]] = {}
        for side in SIDES:
            known = dict(zip(dims_of(self.shape, side), self.sizes(side), strict=True))
            if side in self._blocks:
                known[self._dims[side]] = self._blocks[side].sizes[number]
            sizes[side] = {dim: size for dim, size in known.items() if size is not None}
        return zero_between(linop, lengths_of(window), sizes)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, in which the blocks may be at another place."""
        moved = {
            side: replace(self._blocks[side], position=dims_of(shape, side).index(dim))
            for side, dim in self._dims.items()
        }
        ishape, oshape = self._without_new(shape.ishape), self._without_new(shape.oshape)
        operands = [linop.resolved(ishape=ishape, oshape=oshape) for linop in self.linops]
        return self._with(operands, shape, _blocks=moved)


class Concat(SideBySide):
    r"""Operators side by side: their inputs, outputs or both are concatenated.

    With ``odim`` alone a block column: all operands get the whole input, and their outputs are
    concatenated. With ``idim`` alone a block row: each gets its block of the input, and the outputs
    are added. With both a block diagonal. Outputs are written into one tensor as they come, unless
    autograd has to keep them all.

    Parameters
    ----------
    *linops : NamedLinop
        All of one shape, in names.
    idim, odim : dimension, optional
        At least one. A dimension that is in both shapes must be both.
    isizes, osizes : sequence of int, optional
        Length of each operand's block; needed where an operand does not know its size.
    threaded, num_workers : optional
        As for :class:`Stack`.

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
        if idim is None and odim is None:
            raise ValueError("Concat: idim, odim or both must be given, got neither")
        given: tuple[tuple[Side, NamedDimension | str | None, Sequence[int] | None], ...]
        given = (("input", idim, isizes), ("output", odim, osizes))
        dims: dict[Side, NamedDimension] = {
            side: one_dimension("Concat", f"{side[0]}dim", dim)
            for side, dim, _ in given
            if dim is not None
        }
        operands = same_space("Concat", linops, sized_apart=frozenset(dims.values()))
        blocks = {
            side: divided(operands, side, dims[side], sizes)
            for side, _, sizes in given
            if side in dims
        }
        shape = NamedShape(operands[0].ishape, operands[0].oshape)
        super().__init__(shape, operands, blocks, threaded, num_workers, name)
        for dim in {*dims.values()} & {*self.ishape} & {*self.oshape}:
            if self.idim != self.odim or self.isizes != self.osizes:
                raise ValueError(
                    f"{self.name}: {dim} is in the input and in the output ({self.shape}), so it "
                    "must be both idim and odim with the same blocks, "
                    f"got idim={self.idim} {self.isizes}, odim={self.odim} {self.osizes}"
                )

    @property
    def isizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``idim``; empty where that is None."""
        return self._blocks["input"].sizes if "input" in self._blocks else ()

    @property
    def osizes(self) -> tuple[int, ...]:
        """Length of each operand's block along ``odim``; empty where that is None."""
        return self._blocks["output"].sizes if "output" in self._blocks else ()


def divided(
    linops: Sequence[NamedLinop], side: Side, dim: NamedDimension, sizes: Sequence[int] | None
) -> Blocks:
    """Return the blocks of operands along a dimension that they have."""
    shape, which = NamedShape(linops[0].ishape, linops[0].oshape), side[0]
    names = dims_of(shape, side)
    if dim not in names:
        raise ValueError(f"Concat: {which}dim must be one of {shape}, got {dim}")
    known = [linop.sizes(side)[names.index(dim)] for linop in linops]
    lengths = known if sizes is None else list(per_axis("Concat", f"{which}sizes", sizes))
    whole = [int(length) for length in lengths if _is_length(length)]
    if not len(whole) == len(lengths) == len(known):
        raise ValueError(
            f"Concat: the size of {dim} must be known in every operand; give {which}sizes, "
            f"integers from 0, one for each of {len(known)}; got {lengths}"
        )
    for linop, size, length in zip(linops, known, whole, strict=True):
        if size not in (None, length):
            raise ValueError(
                f"Concat: {dim} must have size {length} in {linop.name} ({linop.shape}), got {size}"
            )
    return Blocks(names.index(dim), tuple(whole))


def _is_length(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and int(value) >= 0

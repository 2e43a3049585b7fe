"""Operators that each have a block of the input, of the output or of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import methodcaller
from typing import ClassVar, Self

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ..._base._cutting import tile_of
from ..._base._dimensions import SIDES, Side, axis_of, check_sizes, dims_of, with_dims_in_front
from ..._base._grid_questions import without_fftshift
from ..._base._linop import NamedLinop
from ..._base._places import COMPOSITION, EqualPlaces, equal_places_side_by_side
from ..._base._question import acts_as
from ..._base._roles import Role
from ..._base._sizes import per_axis
from ..._base._swapped_functions import of_adjoint
from ..._base._tile import Supports, Window
from ..._kernels._accumulate import accumulate as total
from ..._kernels._accumulate import concatenate
from ..._kernels._slices import hull, is_empty
from .._add import Add
from .._composite import Composite, operands_without_fftshift, supports_of
from .._same_space import why_not_alike
from .._supports import supports_side_by_side
from .._threads import check_workers, combine_on_threads
from .._zero import Zero, lengths_of, zero_between
from ._blocks import Blocks


class SideBySide(Composite):
    """Operators that each have a block of the input, of the output or of both."""

    saved_with: ClassVar[tuple[type, ...]] = (Blocks,)

    def __init__(
        self,
        shape: NamedShape,
        linops: Sequence[NamedLinop],
        blocks: Mapping[Side, Blocks],
        threaded: bool,
        num_workers: int | None,
        name: str | None,
    ) -> None:
        check_workers(type(self).__name__, threaded, num_workers)
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
        """The divided dimension of each side that has one; the input comes first."""
        blocks = self._blocks.items()
        return {side: dims_of(self.shape, side)[layout.position] for side, layout in blocks}

    @property
    def _divided(self) -> dict[NamedDimension, Blocks]:
        """The divided dimensions with their blocks; the input comes first."""
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

    def _with_operands_at(self, numbers: range) -> NamedLinop:
        """Return some operands side by side."""
        pairs = self._blocks.items()
        blocks = {s: layout.of(numbers, [layout.sizes[n] for n in numbers]) for s, layout in pairs}
        return self._with(map(self._operand, numbers), _blocks=blocks)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operands side by side with further dimensions in front of both sides."""
        shape = with_dims_in_front(self.shape, dims)
        if shape is None or any(blocks.layouts for blocks in self._blocks.values()):
            return None  # merged dimensions depend on the operands as they are
        front = dims[: len(dims) - len(self.ishape)]
        operands = []
        for linop in self.linops:
            fitted = linop.fitted_to((*front, *linop.ishape))
            if fitted is None or fitted.oshape != (*front, *linop.oshape):
                return None
            operands.append(fitted)
        moved = {
            side: replace(blocks, position=blocks.position + len(front))
            for side, blocks in self._blocks.items()
        }
        return self._with(operands, shape, _blocks=moved)

    def _without_new(self, names: Sequence[NamedDimension]) -> tuple[NamedDimension, ...]:
        """Return the names of a side without a new dimension."""
        return tuple([d for d in names if not (self._is_new and d in (self.idim, self.odim))])

    def _equal_places(self) -> Iterable[EqualPlaces]:
        old = NamedShape(self._without_new(self.ishape), self._without_new(self.oshape))
        for (_, side, position), inner in equal_places_side_by_side(old, self.linops):
            blocks, outer = self._blocks.get(side), position
            if blocks is not None:
                outer += blocks.is_new and position >= blocks.position
                if outer == blocks.position:
                    continue
            yield (COMPOSITION, side, outer), inner
        if len(self._blocks) == 2 and self.idim == self.odim:
            at = [self._blocks[side].position for side in SIDES]
            yield (COMPOSITION, "input", at[0]), (COMPOSITION, "output", at[1])

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the sum of the blocks along the divided dimension."""
        blocks = self._blocks.get(side)
        return sum(blocks.sizes) if blocks is not None and blocks.position == position else None

    @staticmethod
    def fn(linop: SideBySide, x: Tensor, /) -> Tensor:
        """Apply each operand to its block and put the results together."""
        pairs = list(zip(linop.linops, linop.blocks_of(x), strict=False))
        if linop.odim is None:
            # A Zero adds nothing, and may not know its sizes.
            pairs = [pair for pair in pairs if not acts_as(pair[0], Zero)] or pairs
        return combine_on_threads(linop.put_together, pairs, linop.threaded, linop.num_workers)

    adj_fn = staticmethod(of_adjoint)

    def blocks_of(self, x: Tensor) -> Iterable[Tensor]:
        """Return the part of the input of each operand."""
        blocks = self._blocks.get("input")
        if blocks is None:
            return repeat(x)
        axis = axis_of(blocks.position, self.ishape)
        return x.unbind(axis) if blocks.is_new else torch.split(x, list(blocks.sizes), dim=axis)

    def put_together(self, results: Iterable[Tensor]) -> Tensor:
        """Return the sum of the results, or the results side by side."""
        blocks = self._blocks.get("output")
        if blocks is None:
            return total(results, self.name)
        axis = axis_of(blocks.position, self.oshape)
        if blocks.is_new:
            # Not a generator, which would keep a result while the next one is made.
            results = map(methodcaller("unsqueeze", axis), results)
        results = map(partial(self._of_size, axis), blocks.sizes, results)
        return concatenate(results, axis, sum(blocks.sizes), self.name)

    def _of_size(self, axis: int, size: int, result: Tensor) -> Tensor:
        """Return the result of an operand; check its size along an axis."""
        if result.shape[axis] != size:
            raise ValueError(
                f"{self.name}: an operand must return size {size} along axis {axis}, "
                f"got shape {tuple(result.shape)}"
            )
        return result

    def blocks(self, y: Tensor, side: Side | None = None) -> tuple[Tensor, ...]:
        """Return the outputs of the operands as views of the whole output y.

        Parameters
        ----------
        y : Tensor
            Of the shape of the output.
        side : {"input", "output"}, optional
            The side of the operator to which y belongs. By default the output, if the operands have
            parts of it, else the input.

        Raises
        ------
        ValueError
            If y does not have the shape of that side, or all operands have all of it.
        """
        side = self._divided_side(side)
        check_sizes(self, y, side, self.sizes(side))
        blocks = self._blocks[side]
        axis = axis_of(blocks.position, dims_of(self.shape, side))
        if blocks.is_new:
            return y.unbind(axis)
        parts = torch.split(y, list(blocks.sizes), dim=axis)
        if not blocks.layouts:
            return parts
        pairs = zip(blocks.layouts, parts, strict=True)
        return tuple([layout.adj_fn(layout, part) for layout, part in pairs])

    def from_blocks(self, blocks: Sequence[Tensor], side: Side | None = None) -> Tensor:
        """Put outputs of the operands together: the inverse of :meth:`blocks`.

        Raises
        ------
        TypeError
            If an output is not a tensor.
        ValueError
            If there is not one output for each operand, or an output does not fit its operand.
        """
        side = self._divided_side(side)
        row, parts = self._blocks[side], per_axis(self.name, "blocks", blocks)
        if len(parts) != len(row.sizes):
            raise ValueError(
                f"{self.signature}: there must be a block for each of {len(row.sizes)} operands, "
                f"got {len(parts)}"
            )
        of_parts: Side = "input" if row.layouts else side
        axis, dim = axis_of(row.position, dims_of(self.shape, side)), self._dims[side]
        flat: list[Tensor] = []
        for number, (linop, part) in enumerate(zip(row.layouts or self.linops, parts, strict=True)):
            which, sizes = f"{self.signature}: block {number} must", linop.sizes(of_parts)
            got = tuple(part.shape) if isinstance(part, Tensor) else type(part)
            try:
                check_sizes(linop, part, of_parts, sizes)
            except (TypeError, ValueError) as error:
                dims = zip(dims_of(linop.shape, of_parts), sizes, strict=True)
                wanted = ", ".join(f"{d}" if size is None else f"{d}={size}" for d, size in dims)
                raise type(error)(f"{which} be a Tensor of shape ({wanted}), got {got}") from None
            flat.append(linop.fn(linop, part) if row.layouts else part)
            if not row.is_new and flat[-1].shape[axis] != (size := row.sizes[number]):
                raise ValueError(f"{which} have {size} elements along {dim}, got shape {got}")
        try:
            return torch.stack(flat, axis) if row.is_new else torch.cat(flat, axis)
        except RuntimeError as error:
            raise ValueError(
                f"{self.signature}: blocks must have one shape except along {self._dims[side]}, "
                f"and one device, got {[(tuple(b.shape), str(b.device)) for b in blocks]}"
            ) from error

    def _divided_side(self, side: Side | None) -> Side:
        if side is None:
            side = "output" if "output" in self._blocks else "input"
        if side not in self._blocks:
            raise ValueError(
                f"{self.signature}: side must be {' or '.join(map(repr, self._blocks))}, "
                f"the side that the operands divide, got {side!r}"
            )
        return side

    def adjoint(self) -> NamedLinop:
        """Return the adjoints side by side, with input and output exchanged."""
        operands = [linop.H for linop in self.linops]
        pairs = zip(SIDES, reversed(SIDES), strict=True)
        swapped = {side: self._blocks[other] for side, other in pairs if other in self._blocks}
        return self._with(operands, self.shape.H, _blocks=swapped)

    conj = Composite._conj_of_operands

    def own_normal(self) -> NamedLinop:
        """Return the normal in closed form: a sum for a block column, a block diagonal for another.

        A block row has none: each block is multiplied with each other block.
        """
        if "output" not in self._blocks:
            return super().own_normal()
        first, *others = normals = [linop.normal() for linop in self.linops]
        if (blocks := self._blocks.get("input")) is None:
            return Add(*normals, threaded=self.threaded, num_workers=self.num_workers)
        if any((normal.ishape, normal.oshape) != (first.ishape, first.oshape) for normal in others):
            return super().own_normal()  # names of summed dimensions differ
        sides = (first.ishape, first.oshape)
        if blocks.is_new:
            new, at = self._dims["input"], blocks.position
            if any(new in normal.dims for normal in normals):
                return super().own_normal()  # a normal gave this name to what it sums over
            ishape, oshape = ((*names[:at], new, *names[at:]) for names in sides)
            sides = (ishape, oshape)
        shape = NamedShape(*sides)
        return self._with(normals, shape, _blocks=dict.fromkeys(SIDES, blocks), _name=None)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: its roles in the operands differ."""
        if self._is_new and dim in (self.idim, self.odim):
            return None
        return why_not_alike(self, dim)

    def _supports(self, *dims: NamedDimension) -> Supports:
        """Return the hull of the supports of all operands."""
        supports: Supports = dict.fromkeys(dims)
        divided = self._divided
        supports |= supports_side_by_side(self, *(dim for dim in dims if dim not in divided))
        for dim, blocks in divided.items():
            if dim not in supports or self.role(dim) not in (Role.INPUT, Role.OUTPUT):
                continue
            pieces = []
            for part, size, start in zip(self.linops, blocks.sizes, blocks.starts, strict=False):
                piece = supports_of(part, [dim])[dim] or slice(0, size)
                if not is_empty(piece):
                    pieces.append(slice(start + piece.start, start + piece.stop))
            support = hull(pieces)
            supports[dim] = None if support == slice(0, blocks.starts[-1]) else support
        return supports

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the operator of the blocks that each window overlaps."""
        return [self._cut(window) for window in windows]

    def _cut(self, window: Window) -> NamedLinop:
        """Return the operands that overlap the window, cut by it.

        If the input and the output of a block diagonal are cut differently, parts with only one of
        them are zero: one block before the others, and one behind them.
        """
        divided = self._divided
        rest = {dim: piece for dim, piece in window.items() if dim not in divided}
        lengths = lengths_of(rest)
        pieces = {d: window.get(d, slice(0, blocks.starts[-1])) for d, blocks in divided.items()}
        spans = [divided[dim].touched(piece) for dim, piece in window.items() if dim in divided]
        first = max([span.start for span in spans], default=0)
        stop = min([span.stop for span in spans], default=len(self.linops))
        if first >= stop:
            return zero_between(self, lengths | lengths_of(pieces), complete=True)
        parts: list[NamedLinop] = []
        sizes: dict[NamedDimension, list[int]] = {dim: [] for dim in divided}
        for number in range(first, stop):
            inside = dict(rest)
            for dim, blocks in divided.items():
                part = blocks.part(number, pieces[dim])
                sizes[dim].append(part.stop - part.start)
                if not blocks.is_new and sizes[dim][-1] != blocks.sizes[number]:
                    inside[dim] = part
            parts.append(self._operand_part(number, inside))
        before = {d: max(0, divided[d].starts[first] - piece.start) for d, piece in pieces.items()}
        behind = {d: max(0, piece.stop - divided[d].starts[stop]) for d, piece in pieces.items()}
        if not any(before.values()) and not any(behind.values()):
            return self._of_parts(parts, range(first, stop), sizes)
        if self._is_new or not acts_as(self, SideBySide):
            whole = self._of_parts(parts, range(first, stop), sizes)
            parts, sizes = [whole], {dim: [sum(of_parts)] for dim, of_parts in sizes.items()}
        for at, zeros in ((len(parts), behind), (0, before)):
            if any(zeros.values()):
                parts.insert(at, zero_between(self, lengths | zeros, complete=True))
                for dim, of_parts in sizes.items():
                    of_parts.insert(at, zeros[dim])
        of_sides = {
            side: Blocks(self._blocks[side].position, tuple(sizes[dim]))
            for side, dim in self._dims.items()
        }
        return SideBySide(self.shape, parts, of_sides, self.threaded, self.num_workers, self._name)

    def _of_parts(
        self,
        parts: Sequence[NamedLinop],
        numbers: range,
        sizes: Mapping[NamedDimension, Sequence[int]],
    ) -> NamedLinop:
        """Return the operator of some cut operands; ``sizes`` has the size of each."""
        if len(parts) == 1 and not self._is_new and acts_as(self, SideBySide):
            return parts[0]
        blocks = {
            side: self._blocks[side].of(numbers, sizes[dim]) for side, dim in self._dims.items()
        }
        return self._with(parts, _blocks=blocks)

    def _operand_part(self, number: int, window: Window) -> NamedLinop:
        linop = self._operand(number)
        # Tiles of an inner dimension add up, so an operand without it belongs to the first tile.
        if all(dim in linop.dims or piece.start == 0 for dim, piece in window.items()):
            return tile_of(linop, window) if window else linop
        sizes: dict[Side, dict[NamedDimension, int]] = {}
        for side in SIDES:
            lengths = dict(zip(dims_of(self.shape, side), self.sizes(side), strict=True))
            if side in self._blocks:
                lengths[self._dims[side]] = self._blocks[side].sizes[number]
            sizes[side] = {dim: size for dim, size in lengths.items() if size is not None}
        return zero_between(linop, lengths_of(window), sizes)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, in which the divided dimension may have moved."""
        moved = {
            side: replace(self._blocks[side], position=dims_of(shape, side).index(dim))
            for side, dim in self._dims.items()
        }
        ishape, oshape = self._without_new(shape.ishape), self._without_new(shape.oshape)
        operands = [linop.resolved(ishape=ishape, oshape=oshape) for linop in self.linops]
        return self._with(operands, shape, _blocks=moved)


@without_fftshift.register(SideBySide)
def _blocks_without_fftshift(
    linop: SideBySide, dims: Iterable[NamedDimension]
) -> NamedLinop | None:
    concerned = set(dims)
    is_divided = concerned & {linop.idim, linop.odim}
    return None if is_divided else operands_without_fftshift(linop, concerned)

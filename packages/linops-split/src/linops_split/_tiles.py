"""Tiles: the table of parts of a tiled operator, with what each part reads and writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from torch import Tensor

from linops_core import NamedLinop, Side, Window, Zero
from linops_core.siblings import SideBySide, acts_as, constant_when_compiled, unused_names
from nameddim import NamedDimension, NamedShape

from ._part_slices import PartSlices
from ._state import Weights, dictionaries_of

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One part of a table: an operator, and the slices between which it works."""

    linop: NamedLinop
    """The operator between what the part reads and what it writes."""
    window: Window = field(default_factory=dict)
    """The slices of the dimensions that were cut (input, output or inner); all others are whole."""
    devices: Hashable = None
    """The devices between which the part works; None means where input and output are."""

    @property
    def reads(self) -> Window:
        """The slices of the input."""
        return {dim: piece for dim, piece in self.window.items() if dim in self.linop.ishape}

    @property
    def writes(self) -> Window:
        """The slices of the output."""
        return {dim: piece for dim, piece in self.window.items() if dim in self.linop.oshape}

    def is_all_of(self, dim: NamedDimension, length: int) -> bool:
        """Whether the operator has the size of the part's slice of a dimension, or lacks it."""
        piece = self.window.get(dim, slice(0, length))
        return dim not in self.linop.dims or self.linop.size(dim) == piece.stop - piece.start

    def within(self, outer: Window) -> Part:
        """Return this part of a tile as a part of the whole; ``outer`` is the tile's window."""
        starts = {dim: piece.start for dim, piece in outer.items()}
        inside = {
            dim: slice(starts.get(dim, 0) + piece.start, starts.get(dim, 0) + piece.stop)
            for dim, piece in self.window.items()
        }
        return Part(self.linop, {**outer, **inside}, self.devices)


@dataclass(eq=False)
class Tiles:
    """The parts of an operator A, in the order in which their results are summed.

    Each part gets its slice of the input x, and its result is added to its slice of the output. The
    output is A x.

    Parameters
    ----------
    shape : NamedShape
        The shape of A, and of each part.
    parts : sequence of Part
        At least one part.
    lengths : mapping of NamedDimension to int
        The full length of each dimension of which a part has a slice.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_split import batch_linop
    >>> A = batch_linop(Diagonal(torch.arange(4.0), ("N",)), {"N": 2})
    >>> [part.reads for part in A.tiles.parts]
    [{'N': slice(0, 2, None)}, {'N': slice(2, 4, None)}]
    """

    shape: NamedShape
    parts: Sequence[Part]
    lengths: Mapping[NamedDimension, int]

    def __post_init__(self) -> None:
        self.parts, self.lengths = tuple(self.parts), dict(self.lengths)

    @classmethod
    def of(cls, linop: NamedLinop, devices: Hashable = None) -> Tiles:
        """Return the table of one part, a whole operator."""
        return cls(linop.shape, [Part(linop, {}, devices)], {})

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes, without those that can be computed again."""
        return {"shape": self.shape, "parts": self.parts, "lengths": self.lengths}

    def check(self, owner: str) -> None:
        """Raise if a part is not an operator between slices of the input and output of A."""
        if not self.parts:
            raise ValueError(f"{owner}: tiles must have at least one part, got none")
        for part in self.parts:
            if not isinstance(part, Part) or not isinstance(part.linop, NamedLinop):
                raise TypeError(f"{owner}: tiles must have Parts with NamedLinops, got {part!r}")
            if (part.linop.ishape, part.linop.oshape) != (self.shape.ishape, self.shape.oshape):
                raise ValueError(
                    f"{owner}: each part must have the shape {self.shape}, got "
                    f"{part.linop.signature}"
                )
            for dim, piece in part.window.items():
                length, bounds = self.lengths.get(dim), (piece.start, piece.stop)
                is_inside = None not in bounds and 0 <= bounds[0] < bounds[1] <= (length or 0)
                if piece.step not in (None, 1) or not is_inside:
                    raise ValueError(
                        f"{owner}: slices of {dim} must have no step and be within its length in "
                        f"tiles.lengths, {length}, got {piece}"
                    )

    @cached_property
    def linops(self) -> list[NamedLinop]:
        """The operator of each part."""
        return [part.linop for part in self.parts]

    def without_zeros(self) -> Tiles:
        """Return the table without zero parts; keep the first part if all are zero.

        Beside a real part, zeros of a complex input make the output complex, so they stay where no
        other part is added to them.
        """
        kept = {n for n, linop in enumerate(self.linops) if not vanishes(linop)}
        if not all(linop.is_complex_linear for linop in self.linops):
            kept.update(*(group for group in self.output.groups if not kept & {*group}))
        parts = [part for number, part in enumerate(self.parts) if number in kept]
        return Tiles(self.shape, parts or self.parts[:1], self.lengths)

    @cached_property
    def input(self) -> PartSlices:
        """The slice of the input that each part reads."""
        return PartSlices(self.shape.ishape, [part.window for part in self.parts], self.lengths)

    @cached_property
    def output(self) -> PartSlices:
        """The slice of the output that each part writes."""
        return PartSlices(self.shape.oshape, [part.window for part in self.parts], self.lengths)

    @property
    def is_one_whole(self) -> bool:
        """Whether there is only one part, without slices, on the device of input and output."""
        first = self.parts[0]
        return len(self.parts) == 1 and not first.window and first.devices is None

    @constant_when_compiled
    def lay_out(self) -> None:
        """Compute everything about the slices that a call needs, outside of compiled code."""
        for layout in (self.input, self.output):
            _ = layout.steps, layout.adds, layout.fills, layout.is_summed

    @cached_property
    def tensors(self) -> list[Weights]:
        """The dictionaries that hold all weights; parts of one operator share them."""
        return dictionaries_of(self.linops)

    def all_tensors(self) -> list[Tensor]:
        """Return all current weights."""
        return [t for tensors in self.tensors for t in tensors.values() if t is not None]

    def length(self, side: Side, position: int) -> int | None:
        """Return the length of A at a position, or None if no part knows it."""
        names = self.shape.ishape if side == "input" else self.shape.oshape
        if names[position] in self.lengths:
            return self.lengths[names[position]]
        lengths = (part.linop.sizes(side)[position] for part in self.parts)
        return next((size for size in lengths if size is not None), None)

    def linked_positions(self) -> list[tuple[int, int]]:
        """Return pairs of positions in input and output that are the same dimension of A."""
        first, *others = [part.linop.linked_positions() for part in self.parts]
        common = {*first}.intersection(*others)
        ishape, oshape = self.shape.ishape, self.shape.oshape
        return [
            (i, o)
            for i, o in first
            if (i, o) in common
            and all(p.window.get(ishape[i]) == p.window.get(oshape[o]) for p in self.parts)
        ]

    def mapped(
        self, change: Callable[[NamedLinop], NamedLinop], shape: NamedShape | None = None
    ) -> Tiles:
        """Return the table with the operators replaced by ``change`` and the same slices."""
        parts = [Part(change(part.linop), part.window, part.devices) for part in self.parts]
        return Tiles(self.shape if shape is None else shape, parts, self.lengths)

    @property
    def H(self) -> Tiles:
        """The table of the adjoint: each part reads what it wrote before."""
        return self.mapped(lambda linop: linop.H, self.shape.H)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> Tiles:
        """Return the table with renamed dimensions."""
        parts = [
            Part(part.linop.renamed(names), _renamed(part.window, names), part.devices)
            for part in self.parts
        ]
        return Tiles(self.shape.rename(names), parts, _renamed(self.lengths, names))

    def with_output(self, oshape: Sequence[NamedDimension]) -> Tiles | None:
        """Return the table with these names in the output; None if the input has one of them."""
        both = zip(self.shape.oshape, oshape, strict=True)
        names = {old: name for old, name in both if old != name}
        if not names:
            return self
        if {*self.shape.ishape} & {*names, *names.values()}:
            return None
        dims = {dim for linop in self.linops for dim in linop.dims}
        inside = [name for name in names.values() if name in dims and name not in names]
        names.update(zip(inside, unused_names(inside, {*dims, *oshape}), strict=True))
        return self.renamed(names)

    def split(self, tile: Window) -> Tiles | None:
        """Return the table restricted to slices; None if no part has anything there."""
        tiles: Tiles | None = self
        for dim, piece in tile.items():
            if tiles is not None:
                (tiles,) = tiles.split_along(dim, [piece])
        return tiles

    def split_along(self, dim: NamedDimension, pieces: Sequence[slice]) -> list[Tiles | None]:
        """Return the table restricted to each of some slices of one dimension, as `split`."""
        rows: list[list[Part]] = [[] for _ in pieces]
        starts, stops = [piece.start for piece in pieces], [piece.stop for piece in pieces]
        in_order = starts == sorted(starts) and stops == sorted(stops)
        for part in self.parts:
            cut = part.window.get(dim)
            touched = list(range(len(pieces)))
            if cut is not None and in_order:
                touched = touched[bisect_right(stops, cut.start) : bisect_left(starts, cut.stop)]
            both = [(number, _in_both(cut, pieces[number])) for number in touched]
            members = [(number, *inside) for number, inside in both if inside is not None]
            if dim in part.linop.dims:
                linops = part.linop.tiles_along(dim, [inside for _, inside, _ in members])
            else:  # a part without an inner dimension counts in its first slice only
                members = [
                    (number, inside, left) for number, inside, left in members if not inside.start
                ]
                linops = [part.linop] * len(members)
            for linop, (number, _, left) in zip(linops, members, strict=True):
                window = {name: piece for name, piece in part.window.items() if name != dim}
                if left is not None:
                    window[dim] = left
                rows[number].append(Part(linop, window, part.devices))
        return [
            Tiles(self.shape, row, {**self.lengths, dim: piece.stop - piece.start}) if row else None
            for row, piece in zip(rows, pieces, strict=True)
        ]

    def hull(self, dim: NamedDimension) -> slice | None:
        """Return the shortest slice that contains the slices of all parts; None if one has all."""
        pieces = [part.window.get(dim) for part in self.parts]
        slices = [piece for piece in pieces if piece is not None]
        if len(slices) < len(pieces):
            return None
        return slice(min(p.start for p in slices), max(p.stop for p in slices))

    def normal(self, of_group: Callable[[Tiles], Part]) -> Tiles | None:
        """Return the table of A^H A, or None if A and its adjoint must be applied in sequence.

        Parts that write disjoint slices each have their own normal operator. Parts that write to
        the same elements share one; ``of_group`` returns it for their table.
        """
        groups = self.output.groups
        if len(groups) == 1 and len(self.parts) > 1:
            return None
        rows = []
        for group in groups:
            members = [self.parts[number] for number in group]
            if len(members) == 1:
                rows.append(Part(members[0].linop.N, members[0].window, members[0].devices))
            else:
                rows.append(self._normal_of_group(members, of_group))
        shape = rows[0].linop.shape
        if any(part.linop.oshape != shape.oshape for part in rows):
            return None
        # Inside, the normal may use the name of a dimension of A for another one.
        kept = {
            dim
            for dim, length in self.lengths.items()
            if dim in shape.ishape
            or (dim not in shape.oshape and all(part.is_all_of(dim, length) for part in rows))
        }
        # The output has the slices of the input, under the names of the output.
        names = dict(zip(shape.ishape, shape.oshape, strict=True))
        parts = [
            Part(p.linop, _values_by_both_names(p.window, names, kept), p.devices) for p in rows
        ]
        return Tiles(
            NamedShape(shape.ishape, shape.oshape),
            parts,
            _values_by_both_names(self.lengths, names, kept),
        )

    def _normal_of_group(self, parts: Sequence[Part], of_group: Callable[[Tiles], Part]) -> Part:
        group = Tiles(self.shape, parts, self.lengths)
        hulls = {dim: group.hull(dim) for dim in parts[0].window}
        window = {dim: piece for dim, piece in hulls.items() if piece is not None}
        hull = {dim: p for dim, p in window.items() if p.stop - p.start < self.lengths[dim]}
        lengths = {**self.lengths, **{dim: p.stop - p.start for dim, p in hull.items()}}
        inside = [
            Part(part.linop, dict(_within(part.window, hull, lengths)), part.devices)
            for part in parts
        ]
        normal = of_group(Tiles(self.shape, inside, lengths))
        return Part(normal.linop, hull, normal.devices)


def vanishes(linop: NamedLinop) -> bool:
    """Whether an operator is a Zero, or a row of block operators of Zeros only."""
    operands = linop.linops if isinstance(linop, SideBySide) else [linop]
    return all(acts_as(operand, Zero) for operand in operands)


def _in_both(piece: slice | None, cut: slice) -> tuple[slice, slice | None] | None:
    """Return the intersection of two slices: counted from `piece`, and counted from `cut`.

    The second is None if the intersection is all of `cut`. Return None if the slices do not meet.
    """
    if piece is None:
        return cut, None
    start, stop = max(piece.start, cut.start), min(piece.stop, cut.stop)
    if start >= stop:
        return None
    is_all = stop - start == cut.stop - cut.start
    left = None if is_all else slice(start - cut.start, stop - cut.start)
    return slice(start - piece.start, stop - piece.start), left


def _within(
    window: Window, hull: Window, lengths: Mapping[NamedDimension, int]
) -> Iterator[tuple[NamedDimension, slice]]:
    """Yield the slices of a window, counted from the hull, without those that span all of it."""
    for dim, piece in window.items():
        offset = hull[dim].start if dim in hull else 0
        if piece.stop - piece.start < lengths[dim]:
            yield dim, slice(piece.start - offset, piece.stop - offset)


def _renamed(
    by_dim: Mapping[NamedDimension, T], names: Mapping[NamedDimension, NamedDimension]
) -> dict[NamedDimension, T]:
    return {names.get(dim, dim): value for dim, value in by_dim.items()}


def _values_by_both_names(
    by_dim: Mapping[NamedDimension, T],
    names: Mapping[NamedDimension, NamedDimension],
    kept: Set[NamedDimension],
) -> dict[NamedDimension, T]:
    """Return the values of some dimensions, also under the names that they have in the output."""
    of_input = {dim: value for dim, value in by_dim.items() if dim in kept}
    return of_input | {names[dim]: value for dim, value in of_input.items() if dim in names}

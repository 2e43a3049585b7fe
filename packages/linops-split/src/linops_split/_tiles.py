"""The table that a tiled operator is: its parts, and what each of them reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from torch import Tensor

from linops_core import NamedLinop, Side, Window, Zero
from nameddim import NamedDimension, NamedShape

from ._layout import Layout

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One part of a table.

    Parameters
    ----------
    linop : NamedLinop
        From what the part reads to what it writes.
    window : Window
        Its slice of each dimension that was cut, of the input, the output or inside. It has all of
        those that are left out.
    place : hashable, optional
        Where it works; None where input and output of the whole are.
    """

    linop: NamedLinop
    window: Window = field(default_factory=dict)
    place: Hashable = None

    @property
    def reads(self) -> Window:
        """The slices of the input."""
        return {dim: piece for dim, piece in self.window.items() if dim in self.linop.ishape}

    @property
    def writes(self) -> Window:
        """The slices of the output."""
        return {dim: piece for dim, piece in self.window.items() if dim in self.linop.oshape}


class Tiles:
    """The parts of an operator A, in the order in which their results are summed.

    Each part gets its slice of the input x. What it returns is added to its slice of the output,
    and the output is A x.

    Parameters
    ----------
    shape : NamedShape
        Of A, and of each part.
    parts : sequence of Part
        One at least.
    lengths : mapping of NamedDimension to int
        How long each dimension is of which a part has a slice.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_split import batch_linop
    >>> A = batch_linop(Diagonal(torch.arange(4.0), ("N",)), {"N": 2})
    >>> [part.reads for part in A.tiles.parts]
    [{'N': slice(0, 2, None)}, {'N': slice(2, 4, None)}]
    """

    def __init__(
        self, shape: NamedShape, parts: Sequence[Part], lengths: Mapping[NamedDimension, int]
    ) -> None:
        self.shape, self.parts, self.lengths = shape, tuple(parts), lengths

    @cached_property
    def input(self) -> Layout:
        """Which slice of the input each part reads."""
        return Layout(self.shape.ishape, [part.window for part in self.parts], self.lengths)

    @cached_property
    def output(self) -> Layout:
        """Which slice of the output each part writes."""
        return Layout(self.shape.oshape, [part.window for part in self.parts], self.lengths)

    @cached_property
    def tensors(self) -> list[Mapping[str, Tensor | None]]:
        """The dictionaries of all weights, in which parts of one operator look them up."""
        found: dict[int, Mapping[str, Tensor | None]] = {}
        for part in self.parts:
            for module in part.linop.modules():
                for tensors in (module._parameters, module._buffers):
                    found[id(tensors)] = tensors
        return [*found.values()]

    def length(self, side: Side, position: int) -> int | None:
        """Return how long A is at a place, or None where no part knows it."""
        names = self.shape.ishape if side == "input" else self.shape.oshape
        if names[position] in self.lengths:
            return self.lengths[names[position]]
        known = (part.linop.sizes(side)[position] for part in self.parts)
        return next((size for size in known if size is not None), None)

    def linked_positions(self) -> list[tuple[int, int]]:
        """Return the positions in input and output that are one dimension of A."""
        first, *others = [part.linop.linked_positions() for part in self.parts]
        common = {*first}.intersection(*others)
        ishape, oshape = self.shape.ishape, self.shape.oshape
        return [
            (here, there)
            for here, there in first
            if (here, there) in common
            and all(p.window.get(ishape[here]) == p.window.get(oshape[there]) for p in self.parts)
        ]

    def mapped(
        self, change: Callable[[NamedLinop], NamedLinop], shape: NamedShape | None = None
    ) -> Tiles:
        """Return the table with another operator in each part, which has the same slices."""
        parts = [Part(change(part.linop), part.window, part.place) for part in self.parts]
        return Tiles(self.shape if shape is None else shape, parts, self.lengths)

    @property
    def H(self) -> Tiles:
        """The table of the adjoint: each part reads what it wrote."""
        return self.mapped(lambda linop: linop.H, self.shape.H)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> Tiles:
        """Return the table with other names for dimensions."""
        parts = [
            Part(part.linop.renamed(names), _renamed(part.window, names), part.place)
            for part in self.parts
        ]
        return Tiles(self.shape.rename(names), parts, _renamed(self.lengths, names))

    def split(self, tile: Window) -> Tiles | None:
        """Return the table of what is between slices; None where no part has anything there.

        Parameters
        ----------
        tile : Window
            Explicit slices.
        """
        parts = [cut for part in self.parts if (cut := self._cut(part, tile)) is not None]
        lengths = {
            dim: tile[dim].stop - tile[dim].start if dim in tile else length
            for dim, length in self.lengths.items()
        }
        return Tiles(self.shape, parts, lengths) if parts else None

    def _cut(self, part: Part, tile: Window) -> Part | None:
        window, inside = dict(part.window), dict[NamedDimension, slice]()
        for dim, cut in tile.items():
            if dim not in window:
                if dim not in part.linop.dims and cut.start > 0:
                    return None  # what does not have a dimension inside belongs to its beginning
                inside[dim] = cut
                continue
            own = window.pop(dim)
            start, stop = max(own.start, cut.start), min(own.stop, cut.stop)
            if start >= stop:
                return None
            inside[dim] = slice(start - own.start, stop - own.start)
            if stop - start < cut.stop - cut.start:
                window[dim] = slice(start - cut.start, stop - cut.start)
        return Part(part.linop.split(part.linop, inside), window, part.place)

    def normal(self, of_group: Callable[[Tiles], Part]) -> Tiles | None:
        """Return the table of A^H A, or None where A has to be applied there and back.

        Parts that write slices without common elements have a normal operator each. Those that
        write to the same elements have one together.

        Parameters
        ----------
        of_group : function
            Returns, for the table of such parts, their normal operator as a part.
        """
        groups = self.output.groups
        if len(groups) == 1 and len(self.parts) > 1:
            return None
        parts, lengths = [], dict(self.lengths)
        for group in groups:
            own = [self.parts[number] for number in group]
            if len(own) == 1:
                part = Part(own[0].linop.N, own[0].window, own[0].place)
            else:
                part = self._normal_of_group(own, of_group)
            # The output has the slices of the input, by the names that it has there.
            names = dict(zip(part.linop.ishape, part.linop.oshape, strict=True))
            window = dict(part.window)
            for here, there in names.items():
                if here in window:
                    window[there], lengths[there] = window[here], lengths[here]
            parts.append(Part(part.linop, window, part.place))
        lead = parts[0].linop.shape
        if any(part.linop.shape.oshape != lead.oshape for part in parts):
            return None
        return Tiles(NamedShape(lead.ishape, lead.oshape), parts, lengths)

    def _normal_of_group(self, parts: Sequence[Part], of_group: Callable[[Tiles], Part]) -> Part:
        hull: dict[NamedDimension, slice] = {}
        for dim in set(parts[0].window).intersection(*(part.window for part in parts)):
            pieces = [part.window[dim] for part in parts]
            start, stop = min(p.start for p in pieces), max(p.stop for p in pieces)
            if stop - start < self.lengths[dim]:
                hull[dim] = slice(start, stop)
        lengths = dict(self.lengths) | {dim: p.stop - p.start for dim, p in hull.items()}
        inside = [
            Part(part.linop, dict(_within(part.window, hull, lengths)), part.place)
            for part in parts
        ]
        normal = of_group(Tiles(self.shape, inside, lengths))
        return Part(normal.linop, hull, normal.place)


def _within(
    window: Window, hull: Window, lengths: Mapping[NamedDimension, int]
) -> Iterator[tuple[NamedDimension, slice]]:
    """Yield a window inside of a hull, counted from its start, but for what is all of it."""
    for dim, piece in window.items():
        offset = hull[dim].start if dim in hull else 0
        if piece.stop - piece.start < lengths[dim]:
            yield dim, slice(piece.start - offset, piece.stop - offset)


def _renamed(
    by_dim: Mapping[NamedDimension, T], names: Mapping[NamedDimension, NamedDimension]
) -> dict[NamedDimension, T]:
    return {names.get(dim, dim): value for dim, value in by_dim.items()}


def without_zeros(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts without those that add nothing; the first where none adds anything."""
    return [part for part in parts if not isinstance(part.linop, Zero)] or parts[:1]

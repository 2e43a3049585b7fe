"""Places in a composition that are the same dimension, and where their lengths are known.

A *place* is a position in the names of one side of an operand. Names are not enough: a crop may
keep the name Nx for a shorter dimension. Two places are the same dimension where neighbours meet,
and where an operator passes slices of its input to its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from memmap.siblings import components
from nameddim import ELLIPSES, NamedDimension, NamedShape

from ._dimensions import SIDES, DimensionedModule, Side, dims_of

Dims: TypeAlias = tuple[NamedDimension, ...]
Place: TypeAlias = tuple[int, Side, int]
"""The number of an operand, or COMPOSITION, one of its sides, a position."""
EqualPlaces: TypeAlias = tuple[Place, Place]
"""Two places that are the same dimension because of the composition."""

COMPOSITION = -1
"""The composition, which comes last, after its operands."""


@dataclass(frozen=True)
class CompositionDims:
    """The dimensions of a composition: where lengths are known, and which are on both sides."""

    sources: dict[tuple[Side, int], Place]
    """For a place of the whole: the place of an operand that knows its length."""
    links: tuple[tuple[int, int], ...]
    """Pairs of positions of input and output that are the same dimension."""

    def among(self, kept: Sequence[int]) -> CompositionDims | None:
        """Return these facts without some operands, or None if one of them knows a length."""
        numbers = {old: number for number, old in enumerate(kept)}
        if not {number for number, *_ in self.sources.values()} <= numbers.keys():
            return None
        sources = {place: (numbers[old[0]], *old[1:]) for place, old in self.sources.items()}
        return CompositionDims(sources, self.links)


def composition_dims(
    shape: NamedShape,
    linops: Sequence[DimensionedModule],
    pairs: Iterable[EqualPlaces],
    owner: str | None = None,
) -> CompositionDims:
    """Return the facts about the places; with an owner, a place with two lengths is an error."""
    shapes = [*(linop.shape for linop in linops), shape]
    first = [0]
    for each in shapes:
        first.append(first[-1] + len(each.ishape) + len(each.oshape))

    def node(place: Place) -> int:
        number, side, position = place
        return (
            first[number % len(shapes)]
            + position
            + (len(shapes[number].ishape) if side == "output" else 0)
        )

    joined = [(node(other), node(one)) for one, other in pairs]
    for number, linop in enumerate(linops):
        for i, o in linop.linked_positions():
            joined.append((node((number, "output", o)), node((number, "input", i))))
    roots = components(first[-1], joined)
    first_sizes: dict[int, tuple[int, Place]] = {}
    for number, linop in enumerate(linops):
        for side in SIDES:
            for position, size in enumerate(linop.sizes(side)):
                if size is None:
                    continue
                place: Place = (number, side, position)
                before, where = first_sizes.setdefault(roots[node(place)], (size, place))
                if before != size and owner is not None:
                    raise ValueError(_two_lengths(owner, linops, where, before, place, size))
    sources: dict[tuple[Side, int], Place] = {}
    links: list[tuple[int, int]] = []
    at_input: dict[int, int] = {}
    for side in SIDES:
        for position in range(len(dims_of(shape, side))):
            node_of_place = roots[node((COMPOSITION, side, position))]
            if node_of_place in first_sizes:
                sources[side, position] = first_sizes[node_of_place][1]
            if side == "input":
                at_input[node_of_place] = position
            elif node_of_place in at_input:
                links.append((at_input[node_of_place], position))
    return CompositionDims(sources, tuple(links))


def _two_lengths(
    owner: str,
    linops: Sequence[DimensionedModule],
    one: Place,
    size: int,
    other: Place,
    other_size: int,
) -> str:
    """Return the message that one dimension has two lengths."""
    first, second = linops[one[0]], linops[other[0]]
    dim = dims_of(second.shape, other[1])[other[2]]
    before = dims_of(first.shape, one[1])[one[2]]
    name = f"{dim}" if dim == before else f"{before}, which is {dim} further on,"
    return (
        f"{owner}: {name} must have one size, got {size} in {first.signature}, operand "
        f"{one[0] + 1}, and {other_size} in {second.signature}, operand {other[0] + 1}; "
        "make both with one size"
    )


def matching_positions(names: Dims, others: Dims) -> Iterator[tuple[int, int]]:
    """Yield the pairs of positions of two fitting patterns that must be the same dimension.

    Positions before a ``...`` are counted from the start, those behind it from the end.
    """
    if ELLIPSES not in names and ELLIPSES not in others:
        yield from enumerate(range(min(len(names), len(others))))
        return
    runs = [dims.index(ELLIPSES) if ELLIPSES in dims else None for dims in (names, others)]
    if runs[0] == runs[1] and len(names) == len(others):  # each ``...`` is the other one
        yield from enumerate(range(len(names)))
        return
    sides = list(zip((names, others), runs, strict=True))
    in_front = min(len(dims) if run is None else run for dims, run in sides)
    behind = min(len(dims) if run is None else len(dims) - run - 1 for dims, run in sides)
    yield from enumerate(range(in_front))
    for back in range(behind, 0, -1):
        yield len(names) - back, len(others) - back


def equal_places_in_chain(
    shape: NamedShape, linops: Sequence[DimensionedModule]
) -> Iterator[EqualPlaces]:
    """Yield the equal places of operators that are applied one after another."""
    for one, other in matching_positions(shape.ishape, linops[0].ishape):
        yield (COMPOSITION, "input", one), (0, "input", other)
    for number in range(1, len(linops)):
        for one, other in matching_positions(linops[number - 1].oshape, linops[number].ishape):
            yield (number - 1, "output", one), (number, "input", other)
    for one, other in matching_positions(shape.oshape, linops[-1].oshape):
        yield (COMPOSITION, "output", one), (len(linops) - 1, "output", other)


def equal_places_side_by_side(
    shape: NamedShape,
    linops: Sequence[DimensionedModule],
    own_length: Callable[[Side, int], int | None] = lambda side, position: None,
) -> Iterator[EqualPlaces]:
    """Yield the equal places of operators with the same input, whose outputs are combined."""
    for side in SIDES:
        dims_of_whole = dims_of(shape, side)
        for number, linop in enumerate(linops):
            for outer, inner in matching_positions(dims_of_whole, dims_of(linop.shape, side)):
                if own_length(side, outer) is None:
                    yield (COMPOSITION, side, outer), (number, side, inner)


def equal_places_by_name(
    shape: NamedShape, linops: Sequence[DimensionedModule]
) -> Iterator[EqualPlaces]:
    """Yield the equal places of operators that are related to the whole by names only."""
    for number, linop in enumerate(linops):
        linked = {inner for _, inner in linop.linked_positions()}
        for side in SIDES:
            for outer, dim in enumerate(dims_of(shape, side)):
                if dim in linop.ishape:
                    at_output = linop.oshape.index(dim) if dim in linop.oshape else None
                    if at_output is None or at_output in linked:
                        yield (COMPOSITION, side, outer), (number, "input", linop.ishape.index(dim))
                elif dim in linop.oshape:
                    yield (COMPOSITION, side, outer), (number, "output", linop.oshape.index(dim))

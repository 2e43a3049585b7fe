"""Strategies for operators that move, repeat and add elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from ... import PadDim, Rearrange, Repeat, SumReduce, Truncate
from ..._kernels._pattern import Item
from ._known import Known, between, leaf, matrix_of
from ._spaces import Index, Space, Spaces, hidden


def changed_dim(where: Spaces) -> list[tuple[Spaces, int]]:
    """Return where the names of two spaces of one length differ, if in one place."""
    if len(where.ishape) != len(where.oshape):
        return []
    pairs = zip(where.ishape, where.oshape, strict=True)
    changed = [axis for axis, (here, there) in enumerate(pairs) if here != there]
    is_one = len(changed) == 1 and len(where.both) == len(where.ishape) - 1
    return [(where, changed[0])] if is_one else []


@leaf(changed_dim)
def end_pads(draw: st.DrawFn, changed: tuple[Spaces, int]) -> Known:
    """PadDim or Truncate of a dimension in any place, which has another name in the output."""
    where, axis = changed
    here, there = where.ishape[axis], where.oshape[axis]
    n, m = where.sizes[here], where.sizes[there]
    ishape = hidden(draw, where.ishape, [here])
    oshape = tuple(there if dim == here else dim for dim in ishape)
    dim: str | int = draw(st.just(here) | st.just(ishape.index(here)))
    linop = (PadDim if n <= m else Truncate)(dim, n, m, ishape, oshape)

    def entry(o: Index, i: Index) -> complex:
        return i[here] == o[there] and all(o[dim] == i[dim] for dim in where.both)

    return Known(linop, matrix_of(entry, where), where)


def is_widened(where: Spaces) -> bool:
    """Whether the output has the dimensions of the input in their order, and others."""
    return tuple(where.reverse.both) == where.ishape and len(where.oshape) > len(where.ishape)


@leaf(between(is_widened))
def repeats(draw: st.DrawFn, where: Spaces) -> Known:
    """Repeat along dimensions that only the output has."""
    new = {dim: where.sizes[dim] for dim in where.oshape if dim not in where.ishape}
    linop = Repeat(new, where.ishape, where.oshape)

    def entry(o: Index, i: Index) -> complex:
        return all(o[dim] == i[dim] for dim in where.ishape)

    return Known(linop, matrix_of(entry, where), where)


@leaf(between(lambda where: is_widened(where.reverse)))
def sums(draw: st.DrawFn, where: Spaces) -> Known:
    """SumReduce over dimensions that only the input has."""
    gone = {dim: where.sizes[dim] for dim in where.ishape if dim not in where.oshape}
    linop = SumReduce(where.ishape, where.oshape, sizes=gone)

    def entry(o: Index, i: Index) -> complex:
        return all(o[dim] == i[dim] for dim in where.oshape)

    return Known(linop, matrix_of(entry, where), where)


@dataclass(frozen=True)
class Pattern:
    """What Rearrange is made of: the elementary axes of each dimension, with their lengths."""

    where: Spaces
    sides: tuple[Sequence[Item], Sequence[Item]]
    lengths: dict[str, int]

    def axes_at(self, index: Index, side: int) -> dict[str, int]:
        """Return the index along each elementary axis: the last of a group is the fastest."""
        names = (self.where.ishape, self.where.oshape)[side]
        found = {}
        for item, name in zip(self.sides[side], names, strict=True):
            rest = index[name]
            for axis in reversed(item):
                rest, found[axis] = divmod(rest, self.lengths[axis])
        return found


def permutation(where: Spaces) -> list[Pattern]:
    """Return the pattern that brings the dimensions of a space into another order."""
    if sorted(where.ishape) != sorted(where.oshape):
        return []
    sides = [(name,) for name in where.ishape], [(name,) for name in where.oshape]
    return [Pattern(where, sides, {name: where.sizes[name] for name in where.ishape})]


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Patterns with groups, splits and axes of size 1."""
    axes = "abcd"[: draw(st.integers(0, 4))]
    lengths = {axis: draw(st.integers(1, 3 if len(axes) < 4 else 2)) for axis in axes}
    here, there = draw(_grouped(axes)), draw(_grouped(draw(st.permutations(axes))))
    ishape, oshape = _names_of(here, there, "VWXYZ"), _names_of(there, here, "QRSTU")
    items = [*zip(ishape, here, strict=True), *zip(oshape, there, strict=True)]
    sizes = {name: math.prod(lengths[axis] for axis in item) for name, item in items}
    return Pattern(Spaces(ishape, oshape, sizes), (here, there), lengths)


@leaf(permutation, anywhere=patterns())
def rearrangements(draw: st.DrawFn, pattern: Pattern) -> Known:
    """Rearrange: a permutation; where there is a choice, with groups, splits and axes of size 1."""
    where, (here, there) = pattern.where, pattern.sides
    groups = [item for item in (*here, *there) if item]
    open_ = {draw(st.sampled_from(item)) for item in groups if draw(st.booleans())}
    # One length of a group follows from the others, two do not.
    open_ -= {axis for item in groups for axis in item if len(open_.intersection(item)) > 1}
    given = {axis: n for axis, n in pattern.lengths.items() if axis not in open_}
    linop = Rearrange(
        " ".join(map(_written, here)),
        " ".join(map(_written, there)),
        where.ishape,
        where.oshape,
        given,
    )

    def entry(o: Index, i: Index) -> complex:
        return pattern.axes_at(i, 0) == pattern.axes_at(o, 1)

    items = zip((*where.ishape, *where.oshape), (*here, *there), strict=True)
    opaque = {name for name, item in items if item and name not in where.both}
    return Known(linop, matrix_of(entry, where), where, frozenset(opaque))


def _written(item: Sequence[str]) -> str:
    return item[0] if len(item) == 1 else "1" if not item else f"({' '.join(item)})"


@st.composite
def _grouped(draw: st.DrawFn, axes: Sequence[str]) -> list[Item]:
    """Return ``axes`` cut into groups, with axes of size 1 among them."""
    items: list[Item] = []
    for axis in axes:
        if items and draw(st.integers(0, 2)) == 0:
            items[-1] = (*items[-1], axis)
        else:
            items.append((axis,))
    if len(items) < 4 and draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), ())
    return items


def _names_of(items: Sequence[Item], others: Sequence[Item], names: str) -> Space:
    """Return a name for each item: its own where it is one axis on both sides."""
    return tuple(
        item[0].upper() if len(item) == 1 and item in others else names[i]
        for i, item in enumerate(items)
    )

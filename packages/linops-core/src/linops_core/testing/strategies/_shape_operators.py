"""Strategies for operators that move, repeat and add elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from hypothesis import strategies as st
from torch import Tensor

from ... import PadDim, Rearrange, Repeat, SumReduce, Truncate
from ..._kernels._pattern import Item
from ._known import Known, between, leaf, matrix_of, matrix_of_ones, matrix_of_picks
from ._spaces import Index, Space, Spaces, hidden


def is_one_renamed(where: Spaces) -> bool:
    """Whether exactly one dimension, in any place, has another name in the output."""
    changed = sum(map(operator.ne, where.ishape, where.oshape))
    return changed == 1 and len(where.ishape) == len(where.oshape) == len(where.both) + 1


@leaf(between(is_one_renamed))
def end_pads(draw: st.DrawFn, where: Spaces) -> Known:
    """PadDim or Truncate of a dimension in any place, which has another name in the output."""
    (old,), (new,) = ({*side}.difference(where.both) for side in (where.ishape, where.oshape))
    n, m = where.sizes[old], where.sizes[new]
    ishape = hidden(draw, where.ishape, [old])
    oshape = tuple(new if dim == old else dim for dim in ishape)
    dim: str | int = draw(st.just(old) | st.just(ishape.index(old)))
    before = draw(st.integers(0, abs(n - m)))
    linop = (PadDim if n <= m else Truncate)(dim, n, m, ishape, oshape, before=before)
    shift = before if n <= m else -before

    def entry(o: Index, i: Index) -> complex:
        return o[new] == i[old] + shift and all(o[dim] == i[dim] for dim in where.both)

    return Known(linop, matrix_of(entry, where), where)


def is_widened(where: Spaces) -> bool:
    """Whether the output has all dimensions of the input, in their order, and more."""
    return tuple(where.reverse.both) == where.ishape and len(where.oshape) > len(where.ishape)


@leaf(between(is_widened))
def repeats(draw: st.DrawFn, where: Spaces) -> Known:
    """Repeat along dimensions that only the output has."""
    new = {dim: where.sizes[dim] for dim in where.oshape if dim not in where.ishape}
    linop = Repeat(new, where.ishape, where.oshape)
    return Known(linop, matrix_of_ones(where.both, where.both, where), where)


@leaf(between(lambda where: is_widened(where.reverse)))
def sums(draw: st.DrawFn, where: Spaces) -> Known:
    """SumReduce over dimensions that only the input has."""
    gone = {dim: where.sizes[dim] for dim in where.ishape if dim not in where.oshape}
    linop = SumReduce(where.ishape, where.oshape, sizes=gone)
    return Known(linop, matrix_of_ones(where.both, where.both, where), where)


@dataclass(frozen=True)
class Pattern:
    """What Rearrange is made of: the elementary axes of each dimension, with their lengths."""

    where: Spaces
    sides: tuple[Sequence[Item], Sequence[Item]]
    lengths: dict[str, int]

    def applied(self, x: Tensor) -> Tensor:
        """Return ``x`` with its elementary axes apart and in the order of the output."""
        first, then = (list(chain.from_iterable(side)) for side in self.sides)
        return x.reshape([self.lengths[axis] for axis in first]).permute(
            [first.index(axis) for axis in then]
        )


def permutation(where: Spaces) -> list[Pattern]:
    """Return the pattern that brings the dimensions of a space into another order."""
    sides = [(name,) for name in where.ishape], [(name,) for name in where.oshape]
    lengths = {name: where.sizes[name] for name in where.ishape}
    return [Pattern(where, sides, lengths)] if {*where.ishape} == {*where.oshape} else []


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Patterns with groups, splits and axes of size 1."""
    axes = "abcd"[: draw(st.integers(0, 4))]
    lengths = {axis: draw(st.integers(1, 3 if len(axes) < 4 else 2)) for axis in axes}
    ins, outs = draw(_grouped(axes)), draw(_grouped(draw(st.permutations(axes))))
    ishape, oshape = _names_of(ins, outs, "VWXYZ"), _names_of(outs, ins, "QRSTU")
    items = [*zip(ishape, ins, strict=True), *zip(oshape, outs, strict=True)]
    sizes = {name: math.prod(lengths[axis] for axis in item) for name, item in items}
    return Pattern(Spaces(ishape, oshape, sizes), (ins, outs), lengths)


@leaf(permutation, anywhere=patterns())
def rearrangements(draw: st.DrawFn, pattern: Pattern) -> Known:
    """Rearrange: a permutation; where there is a choice, with groups, splits and axes of size 1."""
    where, (ins, outs) = pattern.where, pattern.sides
    groups = [item for item in (*ins, *outs) if item]
    open_ = {draw(st.sampled_from(item)) for item in groups if draw(st.booleans())}
    # One length of a group follows from the others, two do not.
    open_ -= {axis for item in groups for axis in item if len(open_.intersection(item)) > 1}
    given = {axis: n for axis, n in pattern.lengths.items() if axis not in open_}
    before, after = (" ".join(map(_written, side)) for side in pattern.sides)
    linop = Rearrange(before, after, where.ishape, where.oshape, given)
    items = zip((*where.ishape, *where.oshape), (*ins, *outs), strict=True)
    opaque = frozenset(name for name, item in items if item and name not in where.both)
    return Known(linop, matrix_of_picks(where, pattern.applied), where, opaque)


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
    """Return a name for each item: its own name if it is one axis on both sides."""
    letters = [item[0].upper() if len(item) == 1 and item in others else None for item in items]
    return tuple(name or other for name, other in zip(letters, names, strict=False))

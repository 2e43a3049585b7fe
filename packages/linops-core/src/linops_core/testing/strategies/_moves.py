"""Strategies for operators that move the elements of some dimensions, which stand anywhere."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import torch
from hypothesis import strategies as st

from ... import Downsample, Embed, Flip, FourierShift, Roll, Slice, Upsample
from ..._base._linop import NamedLinop
from ._known import Known, leaf, matrix_of
from ._spaces import Index, Space, Spaces


@dataclass(frozen=True)
class Moves:
    """Spaces, and the input dimensions that output dimensions replace in the same places."""

    where: Spaces
    old: Space
    new: Space

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Length of each dimension in the input and in the output."""
        sizes = self.where.sizes
        return [(sizes[i], sizes[o]) for i, o in zip(self.old, self.new, strict=True)]

    def known(
        self,
        linop: NamedLinop,
        factor: Callable[[int, int, int], complex],
        opaque: Sequence[str] | None = None,
    ) -> Known:
        """Return the operator whose entry is the product of ``factor(axis, output, input)``."""
        others = [dim for dim in self.where.ishape if dim not in self.old]

        def entry(o: Index, i: Index) -> complex:
            if any(o[dim] != i[dim] for dim in others):
                return 0
            pairs = enumerate(zip(self.new, self.old, strict=True))
            return math.prod((factor(axis, o[t], i[h]) for axis, (t, h) in pairs), start=1 + 0j)

        both = {*self.old} & {*self.new}
        stuck = frozenset(both if opaque is None else opaque)
        return Known(linop, matrix_of(entry, self.where), self.where, stuck)


def moves(where: Spaces) -> list[Moves]:
    """Return the choices of dimensions to move, so that all others keep their names and places."""
    if len(where.ishape) != len(where.oshape):
        return []
    pairs = list(zip(where.ishape, where.oshape, strict=True))
    changed = {pair for pair in pairs if pair[0] != pair[1]}
    if any(i in where.oshape or o in where.ishape for i, o in changed):
        return []
    result = []
    for n in range(1, len(pairs) + 1):
        for some in permutations(pairs, n):
            if changed <= {*some}:
                result.append(Moves(where, *map(tuple, zip(*some, strict=True))))
    return result


def of_same_lengths(where: Spaces) -> list[Moves]:
    """Return those that keep the length of each dimension."""
    return [one for one in moves(where) if all(i == o for i, o in one.lengths)]


def that_pick(where: Spaces) -> list[Moves]:
    """Return those that make no dimension longer, or none shorter."""
    return [
        one
        for one in moves(where)
        if all(i >= o for i, o in one.lengths) or all(i <= o for i, o in one.lengths)
    ]


def placed(draw: st.DrawFn, one: Moves) -> dict[str, Space]:
    """Return the arguments that name all dimensions, or only the moved ones."""
    names: dict[str, Space] = {}
    n_last = len(one.old)
    if one.where.ishape[-n_last:] != one.old or draw(st.booleans()):
        names["shape"] = one.where.ishape
    if one.old != one.new or draw(st.booleans()):
        names["to"] = one.new
    return names


@leaf(that_pick)
def picks(draw: st.DrawFn, one: Moves) -> Known:
    """Slice, Embed, Downsample and Upsample with steps of both signs, and Flip."""
    names, lengths = placed(draw, one), one.lengths
    is_pick = all(i >= o for i, o in lengths)
    if all(i == o for i, o in lengths) and draw(st.booleans()):
        sizes = [i for i, _ in lengths] if draw(st.booleans()) else None
        opaque = None if sizes else (*one.old, *one.new)
        ends = [i - 1 for i, _ in lengths]
        return one.known(
            Flip(one.old, sizes, **names), lambda axis, o, i: i + o == ends[axis], opaque
        )
    large, small = ([size(pair) for pair in lengths] for size in (max, min))
    firsts, steps = [], []
    for n, m in zip(large, small, strict=True):
        step = draw(st.integers(1, (n - 1) // (m - 1) if m > 1 else n))
        firsts.append(draw(st.integers(0, n - 1 - step * (m - 1))))
        steps.append(step)
    is_whole = all(
        m == len(range(f, n, s)) for n, m, f, s in zip(large, small, firsts, steps, strict=True)
    )
    linop: NamedLinop
    if is_whole and draw(st.booleans()):
        sampled = Downsample if is_pick else Upsample
        linop = sampled(one.old, steps, large, firsts if any(firsts) else None, **names)
    else:
        for axis, m in enumerate(small):
            if draw(st.booleans()):  # the same elements from the last to the first
                firsts[axis] += steps[axis] * (m - 1)
                steps[axis] *= -1
        stops = [f + s * m for f, s, m in zip(firsts, steps, small, strict=True)]
        ends_or_none = [None if stop < 0 else stop for stop in stops]
        slices = dict(zip(one.old, map(slice, firsts, ends_or_none, steps), strict=True))
        by_name = dict(zip(one.old, large, strict=True))
        sizes_given = by_name if draw(st.booleans()) else large
        linop = (Slice if is_pick else Embed)(slices, sizes_given, **names)

    def factor(axis: int, o: int, i: int) -> complex:
        at, number = (i, o) if is_pick else (o, i)
        return at == firsts[axis] + steps[axis] * number

    return one.known(linop, factor)


@leaf(of_same_lengths)
def rolls(draw: st.DrawFn, one: Moves) -> Known:
    """Roll by any number of elements, of known and unknown sizes."""
    sizes = [i for i, _ in one.lengths]
    shifts = [draw(st.integers(-7, 7)) for _ in sizes]
    is_sized = draw(st.integers(0, 3)) > 0
    linop = Roll(one.old, shifts, sizes if is_sized else None, **placed(draw, one))
    opaque = None if is_sized else (*one.old, *one.new)
    return one.known(linop, lambda axis, o, i: (o - i - shifts[axis]) % sizes[axis] == 0, opaque)


@leaf(of_same_lengths)
def fourier_shifts(draw: st.DrawFn, one: Moves) -> Known:
    """FourierShift by fractions of elements, numbers or a weight."""
    sizes = [i for i, _ in one.lengths]
    shifts = [draw(st.sampled_from([0.0, 0.5, -2.25, 3.0, 7.125])) for _ in sizes]
    weight = torch.tensor(shifts, dtype=torch.float64)
    given: list[float] | torch.Tensor = shifts
    if draw(st.booleans()):
        given = torch.nn.Parameter(weight.clone()) if draw(st.booleans()) else weight
    linop = FourierShift(one.old, given, **placed(draw, one))

    def factor(axis: int, o: int, i: int) -> complex:
        n, at = sizes[axis], o - i - shifts[axis]
        frequencies = range(-(n // 2), n - n // 2)
        return sum(cmath.exp(2j * math.pi * k * at / n) for k in frequencies) / n

    return one.known(linop, factor, (*one.old, *one.new))

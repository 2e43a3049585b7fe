"""Strategies for VStack, HStack and BlockDiag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from hypothesis import strategies as st
from torch import Tensor

from ... import BlockDiag, HStack, VStack
from ..._base._linop import NamedLinop
from ._known import Known, leaf, named, tensors
from ._matrices import dense_operators
from ._spaces import Space, Spaces

_NEW = (("F", "G"), ("J", "L"))
"""Names of the merged dimensions in the output and in the input."""


@dataclass(frozen=True)
class FlatSides:
    """Spaces with one or both sides flat: a batch and one dimension that is divided into blocks."""

    where: Spaces
    batch: Space
    row: str | None
    """The last dimension of the output, if operands have each a part of it."""
    column: str | None

    @property
    def divided(self) -> list[str]:
        """The dimensions along which blocks stand."""
        return [dim for dim in (self.row, self.column) if dim is not None]


def flat_sides(where: Spaces) -> list[FlatSides]:
    """Return the ways of operators of any shapes to stand side by side."""
    ishape, oshape, both = where.ishape, where.oshape, tuple(where.both)
    if {*ishape, *oshape} & {name for names in _NEW for name in names}:
        return []  # they are within another one
    result = []
    if oshape[:-1] == both and oshape and oshape[-1] not in ishape:
        result.append(FlatSides(where, both, oshape[-1], None))
    if ishape[:-1] == tuple(where.reverse.both) and ishape and ishape[-1] not in oshape:
        result.append(FlatSides(where, ishape[:-1], None, ishape[-1]))
    if ishape and oshape and ishape[:-1] == oshape[:-1] == both:
        result.append(FlatSides(where, both, oshape[-1], ishape[-1]))
    return result


@leaf(flat_sides)
def flat_stacks(draw: st.DrawFn, sides: FlatSides) -> Known:
    """VStack, HStack and BlockDiag of Dense operators of several shapes, weighted or not."""
    where, batch = sides.where, sides.batch
    n_operands = draw(st.integers(1, 3))
    lengths = [
        None if dim is None else draw(partitions(where.sizes[dim], n_operands))
        for dim in (sides.row, sides.column)
    ]
    n_operands = min(len(each) for each in lengths if each is not None)
    parts = []
    for number in range(n_operands):
        shapes, sizes = [], dict(where.sizes)
        for names, whole, of_blocks in zip(
            _NEW, (where.oshape, where.ishape), lengths, strict=True
        ):
            if of_blocks is None:
                shapes.append(whole)
                continue
            # The rest belongs to the last operand.
            left = of_blocks[number:] if number == n_operands - 1 else [of_blocks[number]]
            merged = draw(factors(sum(left)))
            sizes.update(zip(names, merged, strict=False))
            dims = draw(st.permutations([*batch, *names[: len(merged)]]))
            if number == 0:  # whose order the whole has
                in_order = iter(batch)
                dims = [next(in_order) if dim in batch else dim for dim in dims]
            shapes.append(tuple(dims))
        parts.append(draw(dense_operators(Spaces(shapes[1], shapes[0], sizes))))
    if None not in (sides.row, sides.column):  # nothing says what a ... of one stands for
        parts = [named(part) for part in parts]
    weights: list[Tensor | float] | None = None
    if draw(st.booleans()):
        weights = [draw(tensors([]) | st.sampled_from([2.0, -1.0])) for _ in parts]
        parts = [
            replace(part, matrix=part.matrix * complex(torch.as_tensor(weight).item()))
            for part, weight in zip(parts, weights, strict=True)
        ]
    linops = [part.linop for part in parts]
    linop: NamedLinop
    if sides.column is None:
        linop = VStack(*linops, weights=weights, odim=sides.row)
    elif sides.row is None:
        linop = HStack(*linops, weights=weights, idim=sides.column)
    else:
        linop = BlockDiag(*linops, weights=weights, odim=sides.row, idim=sides.column)
    matrix = flat_matrix(parts, where, batch, sides.row, sides.column)
    new = [name for names in _NEW for name in names]
    inner = {n: part.spaces.sizes[n] for part in parts for n in new if n in part.spaces.sizes}
    return Known(linop, matrix, where, frozenset(new).union(sides.divided), inner)


def flat_matrix(
    parts: Sequence[Known], where: Spaces, batch: Space, row: str | None, column: str | None
) -> Tensor:
    """Return the matrix of operators side by side, which divide the rows or the columns."""
    ends = where.lengths(where.oshape), where.lengths(where.ishape)
    whole = torch.zeros([*ends[0], *ends[1]], dtype=torch.complex128)
    starts = [0, 0]
    for part in parts:
        s = part.spaces
        values = part.matrix.reshape(s.lengths((*s.oshape, *s.ishape)))
        orders, block = [], whole
        for at, (names, dim) in enumerate(((s.oshape, row), (s.ishape, column))):
            if dim is None:
                orders.append(list(names))
                continue
            merged = [name for name in names if name not in batch]
            orders.append([*batch, *merged])
            axis, length = (len(ends[0]) if at else 0) + len(batch), math.prod(s.lengths(merged))
            block = block.narrow(axis, starts[at], length)
            starts[at] += length
        axes = [
            s.oshape.index(name) if not at else len(s.oshape) + s.ishape.index(name)
            for at in (0, 1)
            for name in orders[at]
        ]
        block += values.permute(axes).reshape(block.shape)
    return whole.reshape(math.prod(ends[0]), math.prod(ends[1]))


@st.composite
def partitions(draw: st.DrawFn, total: int, most: int) -> list[int]:
    """Positive integers, at most so many, with a given sum."""
    cuts = draw(st.sets(st.integers(1, total), max_size=min(most, total) - 1))
    return [stop - start for start, stop in pairwise([0, *sorted(cuts - {total}), total])]


@st.composite
def factors(draw: st.DrawFn, product: int) -> list[int]:
    """No, one or two positive integers with a given product."""
    ways = [[product], *([n, product // n] for n in range(1, product + 1) if not product % n)]
    return draw(st.sampled_from([[], *ways] if product == 1 else ways))

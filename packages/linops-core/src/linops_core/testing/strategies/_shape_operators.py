"""Strategies for operators that move, repeat and add elements, and for plain functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from hypothesis import strategies as st
from torch import Tensor

from ... import Crop, PadDim, PadLast, Rearrange, Repeat, SimpleLinop, SumReduce, Truncate
from ..._kernels._pattern import Item
from ._known import Index, Known, matrix_of, tensors
from ._spaces import Space, Spaces, hidden, sides_of_a_leaf, spaces


@st.composite
def centred_pads(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """PadLast or Crop of some last dimensions, each with another name in the output."""
    where = where or draw(_changed_at_the_end())
    n_grid = draw(st.sampled_from(padded_lengths(where)))
    batch, before, after = where.ishape[:-n_grid], where.ishape[-n_grid:], where.oshape[-n_grid:]
    pairs = list(zip(where.lengths(before), where.lengths(after), strict=True))
    kinds = [
        kind
        for kind, fits in (
            (PadLast, all(n <= m for n, m in pairs)),
            (Crop, all(n >= m for n, m in pairs)),
        )
        if fits
    ]
    linop = draw(st.sampled_from(kinds))(
        where.lengths(after), where.lengths(before), before, after, hidden(draw, batch, ())
    )

    def entry(o: Index, i: Index) -> complex:
        from_centre = [
            (i[here] - n // 2, o[there] - m // 2)
            for here, there, (n, m) in zip(before, after, pairs, strict=True)
        ]
        same_batch = all(o[dim] == i[dim] for dim in batch)
        return same_batch and all(here == there for here, there in from_centre)

    return Known(linop, matrix_of(entry, where), where)


def padded_lengths(where: Spaces) -> list[int]:
    """Return how many last dimensions can be padded, or cropped, between two spaces."""
    if len(where.ishape) != len(where.oshape):
        return []
    lengths = list(zip(where.lengths(where.ishape), where.lengths(where.oshape), strict=True))
    return [
        n
        for n in range(1, len(where.ishape) + 1)
        if where.ishape[:-n] == where.oshape[:-n]
        and not set(where.ishape[-n:]) & set(where.oshape[-n:])
        and (all(a <= b for a, b in lengths[-n:]) or all(a >= b for a, b in lengths[-n:]))
    ]


@st.composite
def _changed_at_the_end(draw: st.DrawFn) -> Spaces:
    where = draw(sides_of_a_leaf(same=True).filter(lambda found: found.ishape != ()))
    n_grid = draw(st.integers(1, len(where.ishape)))
    new = tuple("XYZ"[:n_grid])
    longer = draw(st.booleans())
    sizes = dict(where.sizes)
    for here, there in zip(where.ishape[-n_grid:], new, strict=True):
        low, high = (sizes[here], 5) if longer else (1, sizes[here])
        sizes[there] = draw(st.integers(low, high))
    return Spaces(where.ishape, (*where.ishape[:-n_grid], *new), sizes)


@st.composite
def end_pads(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """PadDim or Truncate of a dimension in any place, which has another name in the output."""
    where = where or draw(_changed_in_one())
    (position,) = changed_positions(where)
    here, there = where.ishape[position], where.oshape[position]
    n, m = where.sizes[here], where.sizes[there]
    ishape = hidden(draw, where.ishape, (here,))
    if ishape[:1] == ("...",):
        oshape = ("...", *where.oshape[len(where.ishape) - len(ishape) + 1 :])
    else:
        oshape = where.oshape
    kind = PadDim if n <= m else Truncate
    dim: str | int = draw(st.just(here) | st.just(ishape.index(here)))
    linop = kind(dim, n, m, ishape, oshape)
    others = [dim for dim in where.ishape if dim != here]

    def entry(o: Index, i: Index) -> complex:
        return i[here] == o[there] and all(o[dim] == i[dim] for dim in others)

    return Known(linop, matrix_of(entry, where), where)


def changed_positions(where: Spaces) -> list[int]:
    """Return where the names of two spaces of one length differ, if in one place."""
    if len(where.ishape) != len(where.oshape):
        return []
    pairs = list(zip(where.ishape, where.oshape, strict=True))
    changed = [i for i, (here, there) in enumerate(pairs) if here != there]
    if len(changed) != 1 or where.ishape[changed[0]] in where.oshape:
        return []
    return [] if where.oshape[changed[0]] in where.ishape else changed


@st.composite
def _changed_in_one(draw: st.DrawFn) -> Spaces:
    where = draw(sides_of_a_leaf(same=True).filter(lambda found: found.ishape != ()))
    position = draw(st.integers(0, len(where.ishape) - 1))
    oshape = (*where.ishape[:position], "X", *where.ishape[position + 1 :])
    return Spaces(where.ishape, oshape, {**where.sizes, "X": draw(st.integers(1, 4))})


@st.composite
def rearrangements(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Rearrange: a permutation; where there is a choice, with groups, splits and axes of size 1."""
    if where is not None:
        sides: list[list[Item]] = [
            [(name,) for name in names] for names in (where.ishape, where.oshape)
        ]
        lengths = {name: where.sizes[name] for name in where.ishape}
        names = [where.ishape, where.oshape]
        given = {axis: n for axis, n in lengths.items() if draw(st.booleans())}
    else:
        axes = "abcd"[: draw(st.integers(0, 4))]
        lengths = {axis: draw(st.integers(1, 3 if len(axes) < 4 else 2)) for axis in axes}
        sides = [draw(_grouped(axes)), draw(_grouped(draw(st.permutations(axes))))]
        names = [_names_of(sides[0], sides[1], "VWXYZ"), _names_of(sides[1], sides[0], "QRSTU")]
        sizes = {
            name: math.prod(lengths[axis] for axis in item)
            for items, dims in zip(sides, names, strict=True)
            for name, item in zip(dims, items, strict=True)
        }
        where = Spaces(names[0], names[1], sizes)
        spare = [draw(st.sampled_from(item)) for items in sides for item in items if item]
        open_ = {axis for axis in spare if draw(st.booleans())}
        open_ -= {axis for items in sides for item in items for axis in item if _twice(item, open_)}
        given = {axis: n for axis, n in lengths.items() if axis not in open_}
    written = [" ".join(map(_written, items)) for items in sides]
    linop = Rearrange(written[0], written[1], names[0], names[1], given)

    def entry(o: Index, i: Index) -> complex:
        here, there = (
            _decoded(items, dims, index, lengths)
            for items, dims, index in zip(sides, names, (i, o), strict=True)
        )
        return here == there

    whole = {
        name
        for name, item in zip(names[0], sides[0], strict=True)
        if not item or (name, item) in list(zip(names[1], sides[1], strict=True))
    }
    units = {name for name, item in zip(names[1], sides[1], strict=True) if not item}
    opaque = {*where.ishape, *where.oshape} - whole - units
    return Known(linop, matrix_of(entry, where), where, frozenset(opaque))


def _twice(item: Sequence[str], axes: set[str]) -> bool:
    return len(axes.intersection(item)) > 1


def _written(item: Sequence[str]) -> str:
    return item[0] if len(item) == 1 else "1" if not item else f"({' '.join(item)})"


@st.composite
def _grouped(draw: st.DrawFn, axes: Sequence[str]) -> list[Item]:
    """Return ``axes`` cut into groups, with axes of size 1 among them."""
    items: list[Item] = []
    for axis in axes:
        if items and len(items[-1]) > 0 and draw(st.integers(0, 2)) == 0:
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


def _decoded(
    items: Sequence[Item], names: Sequence[str], index: Index, lengths: dict[str, int]
) -> dict[str, int]:
    """Return the index along each elementary axis: the last of a group is the fastest."""
    found = {}
    for item, name in zip(items, names, strict=True):
        rest = index[name]
        for axis in reversed(item):
            rest, found[axis] = divmod(rest, lengths[axis])
    return found


@st.composite
def repeats(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Repeat along dimensions that only the output has."""
    where = where or draw(_widened())
    new = [dim for dim in where.oshape if dim not in where.ishape]
    linop = Repeat({dim: where.sizes[dim] for dim in new}, where.ishape, where.oshape)

    def entry(o: Index, i: Index) -> complex:
        return all(o[dim] == i[dim] for dim in where.ishape)

    return Known(linop, matrix_of(entry, where), where)


@st.composite
def sums(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """SumReduce over dimensions that only the input has."""
    where = where or draw(_widened()).reverse
    gone = [dim for dim in where.ishape if dim not in where.oshape]
    sizes = {dim: where.sizes[dim] for dim in gone}
    linop = SumReduce(where.ishape, where.oshape, sizes=sizes)

    def entry(o: Index, i: Index) -> complex:
        return all(o[dim] == i[dim] for dim in where.oshape)

    return Known(linop, matrix_of(entry, where), where)


def is_widened(where: Spaces) -> bool:
    """Whether the output has the dimensions of the input in their order, and others."""
    kept = tuple(dim for dim in where.oshape if dim in where.ishape)
    return kept == where.ishape and len(kept) < len(where.oshape)


@st.composite
def _widened(draw: st.DrawFn) -> Spaces:
    wide = draw(sides_of_a_leaf(same=True).filter(lambda found: found.ishape != ()))
    narrow = tuple(dim for dim in wide.ishape if draw(st.booleans()))
    return Spaces(narrow if narrow != wide.ishape else narrow[1:], wide.oshape, wide.sizes)


@st.composite
def plain_functions(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """SimpleLinop of the products with a matrix, with or without a function for the normal."""
    where = where or draw(spaces())
    rows, columns = where.lengths(where.oshape), where.lengths(where.ishape)
    matrix = draw(tensors([math.prod(rows), math.prod(columns)], "complex")).detach()
    gram = partial(product, matrix.mH @ matrix, columns) if draw(st.booleans()) else None
    linop = SimpleLinop(
        partial(product, matrix, rows),
        partial(product, matrix.mH, columns),
        gram,
        where.ishape,
        where.oshape,
        check=draw(st.booleans()),
    )
    return Known(linop, matrix.clone(), where, frozenset({*where.ishape, *where.oshape}))


def product(matrix: Tensor, lengths: Sequence[int], x: Tensor) -> Tensor:
    """Return the product of ``matrix`` and the flattened ``x``, of shape ``lengths``."""
    dtype = torch.promote_types(matrix.dtype, x.dtype)
    return (matrix.to(dtype) @ x.flatten().to(dtype)).reshape(list(lengths))

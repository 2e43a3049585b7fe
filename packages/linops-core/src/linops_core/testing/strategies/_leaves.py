"""Strategies for the operators of the package, one by one, with matrices from explicit loops."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ... import FFT, Dense, Diagonal, Identity, Sampling, Scalar, Zero
from ..._base._linop import NamedLinop
from ._grid_operators import (
    blocks,
    convolutions,
    convolved,
    gridded_batches,
    interpolations,
    strides_between,
)
from ._known import Index, Known, matrix_of, tensors
from ._shape_operators import (
    centred_pads,
    changed_positions,
    end_pads,
    is_widened,
    padded_lengths,
    plain_functions,
    rearrangements,
    repeats,
    sums,
)
from ._spaces import Spaces, hidden, sides_of_a_leaf, spaces


def along(value: Tensor, dims: Sequence[str], index: Index, broadcast: Sequence[str]) -> complex:
    """Return the entry of ``value`` at the part of ``index`` that concerns it."""
    position = tuple(0 if dim in broadcast else index[dim] for dim in dims)
    return complex(value[position].item())


@st.composite
def diagonals(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Diagonal, its weight over some dimensions in any order, some of them of size 1."""
    where = where or draw(sides_of_a_leaf(same=True))
    dims = draw(st.permutations(where.ishape))[: draw(st.integers(0, 3))]
    broadcast = [dim for dim in dims if draw(st.booleans())]
    lengths = [1 if dim in broadcast else where.sizes[dim] for dim in dims]
    weight = draw(tensors(lengths))
    shape = hidden(draw, where.ishape, dims)
    linop = Diagonal.from_weight(weight, dims, shape, broadcast_dims=broadcast)

    def entry(o: Index, i: Index) -> complex:
        return along(weight, dims, i, broadcast) if o == i else 0

    return Known(linop, matrix_of(entry, where), where)


@st.composite
def scalars(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Scalar, of a number or of a tensor."""
    where = where or draw(sides_of_a_leaf(same=True))
    number = complex(draw(st.integers(-2, 2)), draw(st.integers(-2, 2)))
    weight = draw(st.sampled_from([number, number.real]) | tensors([]))
    linop = Scalar(weight, hidden(draw, where.ishape, ()))
    value = complex(weight.item() if isinstance(weight, Tensor) else weight)
    return Known(linop, matrix_of(lambda o, i: value * (o == i), where), where)


@st.composite
def identities(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Identity, with other names in the output or not."""
    if where is None:
        where = draw(sides_of_a_leaf(same=True))
        if draw(st.booleans()):
            oshape = tuple(draw(st.permutations("VWXYZ"))[: len(where.ishape)])
            renamed = dict(zip(oshape, where.lengths(where.ishape), strict=True))
            where = Spaces(where.ishape, oshape, {**where.sizes, **renamed})
    if where.ishape == where.oshape:
        linop = Identity(hidden(draw, where.ishape, ()))
    else:
        linop = Identity(where.ishape, where.oshape)
    pairs = list(zip(where.ishape, where.oshape, strict=True))

    def entry(o: Index, i: Index) -> complex:
        return all(i[here] == o[there] for here, there in pairs)

    changed = frozenset(dim for pair in pairs if pair[0] != pair[1] for dim in pair)
    return Known(linop, matrix_of(entry, where), where, changed)


@st.composite
def zeros(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Zero, between any spaces."""
    where = where or draw(sides_of_a_leaf())
    names = {*where.ishape, *where.oshape}
    linop = Zero(where.ishape, where.oshape, sizes={name: where.sizes[name] for name in names})
    return Known(linop, matrix_of(lambda o, i: 0, where), where)


@st.composite
def dense_operators(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Dense: matrices, batches of them, their dimensions in any order, some broadcast."""
    where = where or draw(sides_of_a_leaf())
    both = [dim for dim in where.ishape if dim in where.oshape]
    one_side = [dim for dim in (*where.ishape, *where.oshape) if dim not in both]
    shared = [dim for dim in both if draw(st.booleans())]
    dims = draw(st.permutations([*one_side, *shared]))
    broadcast = [dim for dim in shared if draw(st.booleans())]
    lengths = [1 if dim in broadcast else where.sizes[dim] for dim in dims]
    weight = draw(tensors(lengths))
    ishape, oshape = where.ishape, where.oshape
    front = 0
    while ishape[front : front + 1] == oshape[front : front + 1] and front < len(ishape):
        if ishape[front] in dims:
            break
        front += 1
    front = draw(st.integers(-1, front))
    if front >= 0:
        ishape, oshape = ("...", *ishape[front:]), ("...", *oshape[front:])
    linop = Dense(weight, dims, ishape, oshape, broadcast)

    def entry(o: Index, i: Index) -> complex:
        if any(o[dim] != i[dim] for dim in both):
            return 0
        return along(weight, dims, {**i, **o}, broadcast)

    return Known(linop, matrix_of(entry, where), where)


@st.composite
def transforms(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """FFT with every norm, centred or not, the grid renamed or not."""
    where = where or draw(_transformed())
    grids = grid_lengths(where)
    n_grid = draw(st.sampled_from(grids))
    image, kspace = where.ishape[-n_grid:], where.oshape[-n_grid:]
    norm = draw(st.sampled_from(["ortho", "backward", "forward"]))
    centered = draw(st.booleans())
    batch = hidden(draw, where.ishape[:-n_grid], ())
    linop = FFT(n_grid, batch, (image, kspace), norm, centered)
    points = math.prod(where.lengths(image))
    scale = {"ortho": points**-0.5, "backward": 1.0, "forward": 1 / points}[norm]

    def entry(o: Index, i: Index) -> complex:
        if any(o[dim] != i[dim] for dim in where.ishape[:-n_grid]):
            return 0
        value: complex = scale
        for here, there in zip(image, kspace, strict=True):
            size = where.sizes[here]
            centre = size // 2 if centered else 0
            turns = (i[here] - centre) * (o[there] - centre) / size
            value *= cmath.exp(-2j * math.pi * turns)
        return value

    return Known(linop, matrix_of(entry, where), where, frozenset({*image, *kspace}))


def grid_lengths(where: Spaces) -> list[int]:
    """Return for how many last dimensions there can be a transform between two spaces."""
    if len(where.ishape) != len(where.oshape):
        return []
    ndim = len(where.ishape)
    return [
        n
        for n in range(1, ndim + 1)
        if where.ishape[:-n] == where.oshape[:-n]
        and where.lengths(where.ishape) == where.lengths(where.oshape)
    ]


@st.composite
def _transformed(draw: st.DrawFn) -> Spaces:
    where = draw(sides_of_a_leaf(same=True).filter(lambda found: found.ishape != ()))
    n_grid = draw(st.integers(1, len(where.ishape)))
    names = draw(st.sampled_from([where.ishape[-n_grid:], tuple("XYZ"[:n_grid])]))
    lengths = dict(zip(names, where.lengths(where.ishape[-n_grid:]), strict=True))
    return Spaces(where.ishape, (*where.ishape[:-n_grid], *names), {**where.sizes, **lengths})


@st.composite
def samplings(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Sampling, points repeated or left out, indices of any number of dimensions."""
    where = where or draw(sides_of_a_leaf().filter(lambda found: bool(sampled_batches(found))))
    n_batch = draw(st.sampled_from(sampled_batches(where)))
    batch, grid = where.ishape[:n_batch], where.ishape[n_batch:]
    samples = where.oshape[n_batch:]
    counts = where.lengths(samples)
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    idx = [torch.randint(where.sizes[dim], counts, generator=generator) for dim in grid]
    if draw(st.booleans()):
        idx = [indices.to(torch.uint8) for indices in idx]
    linop = Sampling(idx, where.lengths(grid), samples, grid, hidden(draw, batch, ()))

    def entry(o: Index, i: Index) -> complex:
        at = tuple(o[dim] for dim in samples)
        same_batch = all(o[dim] == i[dim] for dim in batch)
        return same_batch and all(
            int(indices[at]) == i[dim] for indices, dim in zip(idx, grid, strict=True)
        )

    return Known(linop, matrix_of(entry, where), where, frozenset(grid))


def sampled_batches(where: Spaces) -> list[int]:
    """Return how many first dimensions can be batches of a sampling between two spaces."""
    return [
        n
        for n in range(len(where.ishape))
        if where.ishape[:n] == where.oshape[:n]
        and not set(where.ishape[n:]) & set(where.oshape[n:])
    ]


class OpaqueLinop(NamedLinop):
    """A matrix, as somebody would write it who says nothing about dimensions."""

    def __init__(self, matrix: Tensor, where: Spaces) -> None:
        shape = NamedShape(where.ishape, where.oshape, columns=where.ishape, rows=where.oshape)
        super().__init__(shape)
        self.register_buffer("matrix", matrix)
        self.lengths = {side: where.lengths(getattr(shape, side)) for side in ("columns", "rows")}

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None where it is not in the shapes."""
        for side, lengths in self.lengths.items():
            names = self.shape.other_shapes[side]
            if dim in names:
                return lengths[names.index(dim)]
        return None

    def applied(self, matrix: Tensor, x: Tensor) -> Tensor:
        """Return matrix x, in the output's shape."""
        dtype = torch.promote_types(matrix.dtype, x.dtype)
        y = matrix.to(dtype) @ x.flatten().to(dtype)
        return y.reshape([self.size(dim) or 0 for dim in self.oshape])

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the matrix times x."""
        return linop.applied(linop.matrix, x)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the conjugate transpose times x."""
        return linop.applied(linop.matrix.mH, x)  # type: ignore[no-any-return]


class OpaqueWithNormal(OpaqueLinop):
    """The same for somebody who also gives the normal operator."""

    @staticmethod
    def normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the gram matrix times x."""
        dtype = torch.promote_types(linop.matrix.dtype, x.dtype)
        gram = linop.matrix.mH @ linop.matrix
        return (gram.to(dtype) @ x.flatten().to(dtype)).reshape(x.shape)  # type: ignore[no-any-return]


@st.composite
def opaque_operators(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Operators derived from NamedLinop that do not say how to split them."""
    where = where or draw(spaces())
    lengths = [math.prod(where.lengths(side)) for side in (where.oshape, where.ishape)]
    matrix = draw(tensors(lengths, "complex")).detach()
    linop = draw(st.sampled_from([OpaqueLinop, OpaqueWithNormal]))(matrix, where)
    return Known(linop, matrix.clone(), where, frozenset({*where.ishape, *where.oshape}))


LEAVES: tuple[Callable[..., st.SearchStrategy[Known]], ...] = (
    dense_operators,
    diagonals,
    transforms,
    samplings,
    scalars,
    identities,
    zeros,
    opaque_operators,
    centred_pads,
    end_pads,
    rearrangements,
    repeats,
    sums,
    plain_functions,
    blocks,
    convolutions,
    interpolations,
)
"""A strategy for each operator of the package; called with :class:`Spaces` it stays between."""


def leaves(where: Spaces | None = None) -> st.SearchStrategy[Known]:
    """Any operator of the package, between the given spaces if any.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(leaves())
    ... def test_twice_the_adjoint(known):
    ...     assert known.linop.H.H.shape == known.linop.shape
    >>> test_twice_the_adjoint()
    """
    if where is None:
        return st.one_of([leaf() for leaf in LEAVES])
    chosen: list[st.SearchStrategy[Known]] = [dense_operators(where)]
    if where.ishape == where.oshape:
        chosen += [diagonals(where), scalars(where)]
    if where.lengths(where.ishape) == where.lengths(where.oshape):
        chosen.append(identities(where))
    if grid_lengths(where):
        chosen.append(transforms(where))
    if sampled_batches(where):
        chosen.append(samplings(where))
    if padded_lengths(where):
        chosen.append(centred_pads(where))
    if changed_positions(where):
        chosen.append(end_pads(where))
    if sorted(where.ishape) == sorted(where.oshape):
        chosen.append(rearrangements(where))
    if is_widened(where):
        chosen.append(repeats(where))
    if is_widened(where.reverse):
        chosen.append(sums(where))
    if strides_between(where) or strides_between(where.reverse):
        chosen.append(blocks(where))
    if convolved(where):
        chosen.append(convolutions(where))
    if gridded_batches(where):
        chosen.append(interpolations(where))
    chosen += [zeros(where), opaque_operators(where), plain_functions(where)]
    return st.one_of(chosen)

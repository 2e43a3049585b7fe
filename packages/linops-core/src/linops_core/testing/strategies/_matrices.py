"""Strategies for operators that act entry by entry, and for those that are a stored matrix."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import partial
from itertools import product as product_of

import torch
from hypothesis import strategies as st
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ... import (
    AsComplex,
    Dense,
    Diagonal,
    Identity,
    ImagPart,
    Kronecker,
    RealPart,
    Scalar,
    SimpleLinop,
    Zero,
)
from ..._base._linop import NamedLinop
from .._real_matrices import real_matrix
from ._known import Known, between, complex_values, leaf, matrix_of, matrix_of_ones, named, tensors
from ._spaces import Index, Spaces, hidden, same_space


def along(value: Tensor, dims: Sequence[str], index: Index, broadcast: Sequence[str]) -> complex:
    """Return the entry of ``value`` at the part of ``index`` that concerns it."""
    position = tuple(0 if dim in broadcast else index[dim] for dim in dims)
    return complex(value[position].item())


@leaf(between(same_space))
def diagonals(draw: st.DrawFn, where: Spaces) -> Known:
    """Diagonal, its weight over some dimensions in any order, some of them of size 1."""
    dims = draw(st.permutations(where.ishape))[: draw(st.integers(0, 3))]
    broadcast = [dim for dim in dims if draw(st.booleans())]
    weight = draw(tensors([1 if dim in broadcast else where.sizes[dim] for dim in dims]))
    shape = hidden(draw, where.ishape, dims)
    linop = Diagonal.from_weight(weight, dims, shape, broadcast_dims=broadcast)

    def entry(o: Index, i: Index) -> complex:
        return along(weight, dims, i, broadcast) if o == i else 0

    return Known(linop, matrix_of(entry, where), where)


@leaf(between(same_space))
def diagonal_powers(draw: st.DrawFn, where: Spaces) -> Known:
    """Powers of a Diagonal with complex weights, so that a test may replace them by any others."""
    dims = draw(st.permutations(where.ishape))[: draw(st.integers(0, 3))]
    values = draw(complex_values(where.lengths(dims)))
    weight = values.abs() + (1 + 0j) if draw(st.booleans()) else values + 0.25
    exponents = draw(st.lists(st.sampled_from([0.5, 1.5, 0.3]), min_size=1, max_size=2))
    linop: NamedLinop = Diagonal.from_weight(weight, dims, hidden(draw, where.ishape, dims))
    for exponent in exponents:
        linop = linop**exponent

    def entry(o: Index, i: Index) -> complex:
        value = along(weight, dims, i, ())
        for exponent in exponents:
            value = cmath.exp(exponent * cmath.log(value))
        return value if o == i else 0

    return Known(linop, matrix_of(entry, where), where)


@leaf(between(same_space))
def scalars(draw: st.DrawFn, where: Spaces) -> Known:
    """Scalar, of a number or of a tensor."""
    number = complex(draw(st.integers(-2, 2)), draw(st.integers(-2, 2)))
    weight = draw(st.sampled_from([number, number.real]) | tensors([]))
    linop = Scalar(weight, hidden(draw, where.ishape))
    value = complex(weight.item() if isinstance(weight, Tensor) else weight)
    return Known(linop, matrix_of(lambda o, i: value * (o == i), where), where)


@leaf(between(lambda where: where.lengths(where.ishape) == where.lengths(where.oshape)))
def identities(draw: st.DrawFn, where: Spaces) -> Known:
    """Identity, with other names in the output or not."""
    shapes = (hidden(draw, where.ishape),) if same_space(where) else (where.ishape, where.oshape)
    linop = Identity(*shapes)
    pairs = zip(where.ishape, where.oshape, strict=True)
    changed = frozenset(dim for pair in pairs if pair[0] != pair[1] for dim in pair)
    return Known(linop, matrix_of_ones(where.ishape, where.oshape, where), where, changed)


@leaf(between(same_space))
def real_parts(draw: st.DrawFn, where: Spaces) -> Known:
    """RealPart, ImagPart and AsComplex, which are linear over the reals only."""
    kind = draw(st.sampled_from([RealPart, ImagPart, AsComplex]))
    half = matrix_of(lambda o, i: 0.5 * (o == i), where)
    # Re x is x / 2 + conj(x) / 2, Im x is x / 2i - conj(x) / 2i.
    pair = (-1j * half, 1j * half) if kind is ImagPart else (half, half)
    return Known(kind(hidden(draw, where.ishape)), real_matrix(*pair), where)


@leaf(lambda where: [where])
def zeros(draw: st.DrawFn, where: Spaces) -> Known:
    """Zero, between any spaces."""
    names = draw(st.permutations(sorted({*where.ishape, *where.oshape})))
    linop = Zero(where.ishape, where.oshape, sizes={name: where.sizes[name] for name in names})
    return Known(linop, matrix_of(lambda o, i: 0, where), where)


@leaf(lambda where: [where])
def dense_operators(draw: st.DrawFn, where: Spaces) -> Known:
    """Dense: matrices, batches of them, their dimensions in any order, some broadcast."""
    both = where.both
    one_side = [dim for dim in (*where.ishape, *where.oshape) if dim not in both]
    shared = [dim for dim in both if draw(st.booleans())]
    dims = draw(st.permutations([*one_side, *shared]))
    broadcast = [dim for dim in shared if draw(st.booleans())]
    weight = draw(tensors([1 if dim in broadcast else where.sizes[dim] for dim in dims]))
    same = [idim == odim for idim, odim in zip(where.ishape, where.oshape, strict=False)]
    n_same = (*same, False).index(False)
    ishape = hidden(draw, where.ishape, [*where.ishape[n_same:], *dims])
    oshape = where.oshape
    if ishape[:1] == ("...",):
        oshape = ("...", *oshape[len(where.ishape) - len(ishape) + 1 :])
    linop = Dense(weight, dims, ishape, oshape, broadcast)

    def entry(o: Index, i: Index) -> complex:
        if any(o[dim] != i[dim] for dim in both):
            return 0
        return along(weight, dims, {**i, **o}, broadcast)

    return Known(linop, matrix_of(entry, where), where)


def kronecker_sides(where: Spaces) -> list[tuple[Spaces, Spaces]]:
    """Return the ways to divide spaces between two operands without a common dimension."""
    result = []
    counts = (range(len(side) + 1) for side in (where.ishape, where.oshape))
    for n_inputs, n_outputs in product_of(*counts):
        first = Spaces(where.ishape[:n_inputs], where.oshape[:n_outputs], where.sizes)
        second = Spaces(where.ishape[n_inputs:], where.oshape[n_outputs:], where.sizes)
        dims = [{*part.ishape, *part.oshape} for part in (first, second)]
        if all(dims) and not dims[0] & dims[1] and not first.both and not second.both:
            result.append((first, second))
    return result


@leaf(kronecker_sides)
def kronecker_products(draw: st.DrawFn, sides: tuple[Spaces, Spaces]) -> Known:
    """Kronecker of two matrices, with a leading ``...`` or without."""
    operands, matrices = [], []
    for part in sides:
        weight = draw(tensors(part.lengths((*part.oshape, *part.ishape))))
        run = draw(st.sampled_from([(), ("...",)]))
        dims = (*part.oshape, *part.ishape)
        operands.append(Dense(weight, dims, (*run, *part.ishape), (*run, *part.oshape)))
        matrix = weight.detach().reshape(math.prod(part.lengths(part.oshape)), -1)
        matrices.append(matrix.to(torch.complex128))
    first, second = sides
    where = Spaces((*first.ishape, *second.ishape), (*first.oshape, *second.oshape), first.sizes)
    return named(Known(Kronecker(operands[0], operands[1]), torch.kron(*matrices), where))


def product(matrix: Tensor, lengths: Sequence[int], x: Tensor) -> Tensor:
    """Return the product of ``matrix`` and the flattened ``x``, of shape ``lengths``."""
    dtype = torch.promote_types(matrix.dtype, x.dtype)
    return (matrix.to(dtype) @ x.flatten().to(dtype)).reshape(list(lengths))


@leaf(lambda where: [where])
def plain_functions(draw: st.DrawFn, where: Spaces) -> Known:
    """SimpleLinop of the products with a matrix, with or without a function for the normal."""
    rows, columns = where.lengths(where.oshape), where.lengths(where.ishape)
    matrix = draw(complex_values([math.prod(rows), math.prod(columns)]))
    gram = partial(product, matrix.mH @ matrix, columns) if draw(st.booleans()) else None
    forward, adjoint = partial(product, matrix, rows), partial(product, matrix.mH, columns)
    is_checked = draw(st.booleans())
    linop = SimpleLinop(forward, adjoint, gram, where.ishape, where.oshape, check=is_checked)
    return Known(linop, matrix.clone(), where, frozenset({*where.ishape, *where.oshape}))


class OpaqueLinop(NamedLinop):
    """A matrix as a NamedLinop without roles of dimensions."""

    matrix: Tensor

    def __init__(self, matrix: Tensor, where: Spaces) -> None:
        # The shape renames its sides together with ``columns`` and ``rows``.
        shape = NamedShape(where.ishape, where.oshape, columns=where.ishape, rows=where.oshape)
        super().__init__(shape)
        self.register_buffer("matrix", matrix)
        self.n_columns, self.n_rows = where.lengths(where.ishape), where.lengths(where.oshape)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if it is not in the shapes."""
        columns = zip(self.shape.columns, self.n_columns, strict=True)
        rows = zip(self.shape.rows, self.n_rows, strict=True)
        return {**dict(columns), **dict(rows)}.get(NamedDimension(dim))

    @staticmethod
    def fn(linop: OpaqueLinop, x: Tensor, /) -> Tensor:
        """Return the matrix times x."""
        return product(linop.matrix, linop.n_rows, x)

    @staticmethod
    def adj_fn(linop: OpaqueLinop, x: Tensor, /) -> Tensor:
        """Return the conjugate transpose times x."""
        return product(linop.matrix.mH, linop.n_columns, x)


class OpaqueWithNormal(OpaqueLinop):
    """An OpaqueLinop with a closed form of the normal operator."""

    @staticmethod
    def normal_fn(linop: OpaqueWithNormal, x: Tensor, /) -> Tensor:
        """Return the gram matrix times x."""
        return product(linop.matrix.mH @ linop.matrix, x.shape, x)


@leaf(lambda where: [where])
def opaque_operators(draw: st.DrawFn, where: Spaces) -> Known:
    """Operators derived from NamedLinop that do not say how to split them."""
    rows, columns = where.lengths(where.oshape), where.lengths(where.ishape)
    matrix = draw(complex_values([math.prod(rows), math.prod(columns)]))
    linop = draw(st.sampled_from([OpaqueLinop, OpaqueWithNormal]))(matrix, where)
    return Known(linop, matrix.clone(), where, frozenset({*where.ishape, *where.oshape}))

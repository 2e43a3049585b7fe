"""Strategies for compositions, whose matrices are made of the matrices of their parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from ... import Add, Chain, Concat, Identity, Stack, VStack
from ..._base._linop import NamedLinop
from .._real_matrices import alike, conjugated, scaled
from ._blocks import blocks
from ._flat_stacks import factors, partitions
from ._known import Known, Leaf, named
from ._leaves import leaves
from ._matrices import dense_operators, identities
from ._shape_operators import end_pads, rearrangements
from ._spaces import Spaces, sides, spaces

Build: TypeAlias = Callable[["Draw", Spaces, int], Known]
Drawn = TypeVar("Drawn")


class Draw:
    """The function that draws from strategies, with the strategies of single operators."""

    def __init__(self, draw: st.DrawFn, leaves: Sequence[Leaf]) -> None:
        self._draw, self._leaves = draw, leaves

    def __call__(self, strategy: st.SearchStrategy[Drawn], label: object = None) -> Drawn:
        return self._draw(strategy, label)

    def leaf(self, where: Spaces) -> Known:
        """Draw a single operator: one of those of the user, if any, or of this package."""
        ours = leaves(where)
        if self._leaves:  # one_of would count each strategy of `ours` as one
            others = [strategy(where) for strategy in self._leaves]
            ours = st.one_of([ours.flatmap(st.just), *others])
        return self._draw(ours)


@st.composite
def trees(
    draw: st.DrawFn, depth: int = 2, where: Spaces | None = None, own: Sequence[Leaf] = ()
) -> Known:
    """Operators and compositions of them; no wildcards are left in the outer shape.

    Compositions are nested ``depth`` deep at most, between any spaces or those given as ``where``.
    ``own`` are strategies for your own operators, made with :func:`leaf`. Where they fit, they are
    as frequent as all operators of this package together.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(trees(depth=1))
    ... def test_twice_the_adjoint(known):
    ...     assert known.linop.H.H.shape == known.linop.shape
    >>> test_twice_the_adjoint()
    """
    where = where or draw(spaces())
    return named(_nested(Draw(draw, own), where, depth))


def _nested(draw: Draw, where: Spaces, depth: int) -> Known:
    if depth == 0:
        return draw.leaf(where)
    builds: list[Build] = [_leaf, _chain, _chain, _sum, _multiple, *[_derived] * 3]
    if any(where.sizes[dim] > 1 for dim in (*where.ishape, *where.oshape)):
        builds += [_concatenation, _concatenation]
    if where.ishape or where.oshape:
        builds.append(_stack)
    if len(where.oshape) == 1 and where.oshape[0] not in (*where.ishape, *"FG"):
        builds.append(_flat_stack)  # within which F and G are merged
    if where.lengths(where.ishape) == where.lengths(where.oshape):
        builds.append(_normal)
    if where.ishape == where.oshape:
        builds.append(_power)
    return draw(st.sampled_from(builds))(draw, where, depth - 1)


def _leaf(draw: Draw, where: Spaces, depth: int) -> Known:
    return draw.leaf(where)


def _chain(draw: Draw, where: Spaces, depth: int) -> Known:
    middle = draw(sides())
    first = _nested(draw, Spaces(where.ishape, middle, where.sizes), depth)
    second = _nested(draw, Spaces(middle, where.oshape, where.sizes), depth)
    A, B = first.linop, second.linop
    linop = draw(st.sampled_from([B @ A, Chain(A, B), B.compose(A)]))
    twice = (sizes_in(first).keys() & sizes_in(second).keys()) - {*middle}
    matrix = product([second.matrix, first.matrix])
    return combined([first, second], linop, matrix, where, twice)


def _sum(draw: Draw, where: Spaces, depth: int) -> Known:
    if draw(st.booleans()):  # a term with a dimension inside beside one that may lack it
        terms = [_chain(draw, where, max(depth - 1, 0)), _leaf(draw, where, depth)]
    else:
        terms = [_nested(draw, where, depth) for _ in range(draw(st.integers(1, 3)))]
    linops, matrices = [term.linop for term in terms], alike(*(term.matrix for term in terms))
    if len(terms) == 2 and draw(st.booleans()):
        return combined(terms, linops[0] - linops[1], matrices[0] - matrices[1], where)
    in_one = draw(st.booleans())
    linop = Add(*linops, **_threads(draw)) if in_one else sum(linops[1:], start=linops[0])
    return combined(terms, linop, reduce(torch.add, matrices), where)


def _threads(draw: Draw) -> dict[str, Any]:
    """Return whether operands run on threads: seldom, because small operands then take long."""
    threaded = draw(st.integers(0, 9)) == 9
    return {"threaded": threaded, "num_workers": 2 if threaded else None}


def _multiple(draw: Draw, where: Spaces, depth: int) -> Known:
    known = _nested(draw, where, depth)
    A, M = known.linop, known.matrix
    value = draw(st.sampled_from([2, -1, 0.5, 2 - 1j]))
    n = torch.tensor(value, dtype=torch.complex128) if draw(st.booleans()) else value
    multiple = scaled(value, M)
    multiples = [(n * A, multiple), (A * n, multiple), (A / n, scaled(1 / value, M)), (-A, -M)]
    linop, matrix = draw(st.sampled_from(multiples))
    return replace(known, linop=linop, matrix=matrix)


def _derived(draw: Draw, where: Spaces, depth: int) -> Known:
    attribute = draw(st.sampled_from(["H", "T", "conj"]))
    if attribute == "conj":
        known = _nested(draw, where, depth)
        return replace(known, linop=known.linop.conj(), matrix=conjugated(known.matrix))
    known = _nested(draw, where.reverse, depth)
    linop, matrix = getattr(known.linop, attribute), known.matrix.mH
    matrix = conjugated(matrix) if attribute == "T" else matrix
    return replace(known, linop=linop, matrix=matrix, spaces=where)


def _power(draw: Draw, where: Spaces, depth: int) -> Known:
    known = named(_nested(draw, where, depth))
    if not known.linop.is_endomorphism:  # such as a full convolution on a grid of any size
        return known
    exponent = draw(st.integers(0, 3))
    matrix = torch.linalg.matrix_power(known.matrix, exponent)
    twice = sizes_in(known).keys() - {*where.ishape}
    return combined([known], known.linop**exponent, matrix, where, twice)


def _normal(draw: Draw, where: Spaces, depth: int) -> Known:
    middle = draw(sides())
    known = named(_nested(draw, Spaces(where.ishape, middle, where.sizes), depth))
    parts, matrix = [known], known.matrix.mH @ known.matrix
    twice: set[str] = set()
    if draw(st.booleans()):
        inside = named(_nested(draw, Spaces(middle, middle, where.sizes), depth))
        linop = known.linop.normal(inside.linop)
        parts, matrix = [known, inside], product([known.matrix.mH, inside.matrix, known.matrix])
        twice |= (sizes_in(known).keys() & sizes_in(inside).keys()) - {*middle}
    else:
        linop = draw(st.sampled_from([known.linop.N, known.linop.gram, known.linop.normal()]))
    then = draw(st.sampled_from(["alone", "regularised", "squared"]))
    if then == "regularised":  # operators that are added or follow may use the names of the input
        linop = linop - 2 * Identity(linop.ishape)
        matrix = matrix - 2 * torch.eye(len(matrix))
    elif then == "squared":
        linop, matrix = linop**2, matrix @ matrix
        twice |= sizes_in(known).keys()
    pairs = zip(linop.oshape, where.oshape, strict=True)
    renamed = {name for made, wanted in pairs if made != wanted for name in (made.name, wanted)}
    if renamed:
        linop = Identity(linop.oshape, where.oshape) @ linop
    result = combined(parts, linop, matrix, where, twice | renamed)
    inner = {dim: where.sizes[dim] for dim in {*where.ishape, *middle} - {*where.oshape}}
    opaque = result.opaque | result.side_by_side
    return replace(result, opaque=opaque, inner={**result.inner, **inner})


def _concatenation(draw: Draw, where: Spaces, depth: int) -> Known:
    names = sorted({*where.ishape, *where.oshape})
    dim = draw(st.sampled_from([name for name in names if where.sizes[name] > 1]))
    idim, odim = divided = _blocks_along(draw, where, dim)
    cuts = sorted(draw(st.sets(st.integers(1, where.sizes[dim] - 1))))
    lengths = [stop - start for start, stop in pairwise([0, *cuts, where.sizes[dim]])]
    parts = []
    for length in lengths:
        sizes = {**where.sizes, **{name: length for name in divided if name is not None}}
        parts.append(named(_nested(draw, replace(where, sizes=sizes), depth)))
    isizes, osizes = (None if name is None else lengths for name in divided)
    linops = [part.linop for part in parts]
    linop = Concat(*linops, idim=idim, odim=odim, isizes=isizes, osizes=osizes, **_threads(draw))
    return side_by_side(parts, linop, where, lengths, idim, odim)


def _stack(draw: Draw, where: Spaces, depth: int) -> Known:
    dim = draw(st.sampled_from(sorted({*where.ishape, *where.oshape})))
    idim, odim = new = _blocks_along(draw, where, dim)
    both = (where.ishape, where.oshape)
    ishape, oshape = (tuple(name for name in side if name not in new) for side in both)
    inside = Spaces(ishape, oshape, where.sizes)
    operands = []
    for _ in range(where.sizes[dim]):
        operand = named(_nested(draw, inside, depth))
        if {*new} & sizes_in(operand).keys():  # the new dimension must be one that no operand has
            operand = named(draw(dense_operators(inside)))
        operands.append(operand)
    linop = Stack(
        *(operand.linop for operand in operands),
        idim_and_idx=(idim, None if idim is None else where.ishape.index(idim)),
        odim_and_idx=(odim, None if odim is None else where.oshape.index(odim)),
        **_threads(draw),
    )
    return side_by_side(operands, linop, where, [1] * len(operands), idim, odim)


def _flat_stack(draw: Draw, where: Spaces, depth: int) -> Known:
    (row,) = where.oshape
    parts = []
    for length in draw(partitions(where.sizes[row], 3)):
        merged = dict(zip("FG", draw(factors(length)), strict=False))
        inside = Spaces(where.ishape, tuple(merged), {**where.sizes, **merged})
        part = named(_nested(draw, inside, depth))
        # It must be one that no operand has, and know how long its rows are.
        if row in sizes_in(part) or None in part.linop.sizes("output"):
            part = named(draw(dense_operators(inside)))
        parts.append(part)
    linop = VStack(*(part.linop for part in parts), odim=row, batch_dims=())
    matrices = alike(*(part.matrix for part in parts))
    n = 1 if matrices[0].is_complex() else 2  # real and imaginary parts come first
    rows = [M.reshape(n, -1, M.shape[1]) for M in matrices]
    result = combined(parts, linop, torch.cat(rows, dim=1).flatten(0, 1), where, ("F", "G", row))
    # Normals of operands may give different names to what they return.
    return replace(result, side_by_side=result.side_by_side.union(where.oshape, where.ishape))


def _blocks_along(draw: Draw, where: Spaces, dim: str) -> tuple[str | None, str | None]:
    """Return along which dimensions of input and output blocks are side by side, one is ``dim``."""
    idim, odim = (dim if dim in side else None for side in (where.ishape, where.oshape))
    sides = where.ishape, where.oshape
    first, second = sides if idim is None else sides[::-1]
    others = [n for n in first if n not in second and where.sizes[n] == where.sizes[dim]]
    if None in (idim, odim) and others and draw(st.booleans()):
        other = draw(st.sampled_from(others))
        return (other, odim) if idim is None else (idim, other)
    return idim, odim


def side_by_side(
    parts: Sequence[Known],
    linop: NamedLinop,
    where: Spaces,
    lengths: Sequence[int],
    idim: str | None,
    odim: str | None,
) -> Known:
    """Return the known composition of parts with these lengths along a dimension."""
    rows, columns = where.lengths(where.oshape), where.lengths(where.ishape)
    matrices = alike(*(part.matrix for part in parts))
    if not matrices[0].is_complex():  # real and imaginary parts come first
        rows, columns = [2, *rows], [2, *columns]
    first_row, first_column = len(rows) - len(where.oshape), len(columns) - len(where.ishape)
    whole = torch.zeros([*rows, *columns], dtype=matrices[0].dtype)
    start = 0
    for matrix, length in zip(matrices, lengths, strict=True):
        block = whole
        if odim is not None:
            block = block.narrow(first_row + where.oshape.index(odim), start, length)
        if idim is not None:
            at = len(rows) + first_column + where.ishape.index(idim)
            block = block.narrow(at, start, length)
        block += matrix.reshape(block.shape)
        start += length
    result = combined(parts, linop, whole.reshape(math.prod(rows), math.prod(columns)), where)
    divided = {name for name in (idim, odim) if name is not None}
    return replace(result, side_by_side=result.side_by_side | divided)


def product(matrices: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices, over the complex numbers where all are."""
    return reduce(torch.matmul, alike(*matrices))


def sizes_in(known: Known) -> dict[str, int]:
    """Return the sizes of all dimensions of an operator, also of the inner ones."""
    spaces = known.spaces
    return {**{dim: spaces.sizes[dim] for dim in (*spaces.ishape, *spaces.oshape)}, **known.inner}


def combined(
    parts: Sequence[Known],
    linop: NamedLinop,
    matrix: Tensor,
    where: Spaces,
    opaque: Iterable[str] = (),
) -> Known:
    """Return the known composition; it cannot be sliced along ``opaque``."""
    inner: dict[str, int] = {}
    clashing: set[str] = set()
    for part in parts:
        for dim, size in sizes_in(part).items():
            if dim not in (*where.ishape, *where.oshape) and inner.setdefault(dim, size) != size:
                clashing.add(dim)
    clashing = clashing.union(opaque, *(part.opaque for part in parts))
    side_by_side = frozenset().union(*(part.side_by_side for part in parts))
    return Known(linop, matrix, where, frozenset(clashing), inner, side_by_side)


@st.composite
def sums_of_views(draw: st.DrawFn) -> Known:
    r"""Sums over a dimension K of operators that mostly return a view of their input.

    :math:`y = \sum_k A_k x_k`, where most :math:`A_k` copy nothing. When such an operator is cut
    along K, partial sums begin with a view of the input of a tile.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(sums_of_views())
    ... def test_the_dimension_that_is_summed_is_first(known):
    ...     assert str(known.linop.ishape[0]) == "K"
    >>> test_the_dimension_that_is_summed_is_first()
    """
    inside, views = draw(st.sampled_from(_VIEWS))
    n_operands = draw(st.integers(2, 5))
    is_view = draw(st.lists(st.integers(0, 3), min_size=n_operands, max_size=n_operands))
    operands = [named(draw((views if n else dense_operators)(inside))) for n in is_view]
    where = Spaces(("K", *inside.ishape), inside.oshape, {**inside.sizes, "K": n_operands})
    linop = Stack(*(operand.linop for operand in operands), idim_and_idx=("K", 0))
    return side_by_side(operands, linop, where, [1] * n_operands, "K", None)


_SIZES = {"A": 4, "B": 4, "C": 3, "D": 2, "E": 2}
_VIEWS = [
    (Spaces(("A",), ("A",), _SIZES), identities),
    (Spaces(("A",), ("B",), _SIZES), identities),
    (Spaces(("A",), ("C",), _SIZES), end_pads),
    (Spaces(("C", "D"), ("D", "C"), _SIZES), rearrangements),
    (Spaces(("A",), ("D", "E"), _SIZES), blocks),
    (Spaces(("D", "E"), ("A",), _SIZES), blocks),
]

"""Operators with known matrices, and the laws that hold between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Protocol, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from nameddim import ND, NamedDimension

from ..._base._linop import NamedLinop
from ..._base._sizes import input_lengths
from .._functions import check_functions
from .._real_matrices import dense, real_matrix
from .._real_matrices import product as matrix_product
from .._tiles import check_cuts, check_matrix, sizes_of
from ._spaces import Index, Spaces, small_spaces

Way = TypeVar("Way")


@dataclass(frozen=True)
class Known:
    """An operator, and the matrix that it must have.

    :func:`check` has an example.
    """

    linop: NamedLinop
    matrix: Tensor
    """complex128, (product of output sizes, product of input sizes). Of an operator that is linear
    over the reals only: float64, over real and imaginary parts, twice as large; see RealForm."""
    spaces: Spaces
    opaque: frozenset[str] = frozenset()
    """Dimensions, without index, for which there is a reason why they cannot be sliced."""
    inner: Mapping[str, int] = field(default_factory=dict)
    """Dimensions inside of the operator that are in neither shape, with their sizes."""
    side_by_side: frozenset[str] = frozenset()
    """Dimensions along which blocks are side by side somewhere in the operator.

    A normal operator sums over them, and may have them in different sizes.
    """

    def sizes_of(self, linop: NamedLinop) -> dict[str, int]:
        """Return the size of each dimension of an operator that is derived from this one."""
        return sizes_of(linop, {**self.spaces.sizes, **self.inner})

    def dense(self, linop: NamedLinop, sizes: Mapping[str, int] | None = None) -> Tensor:
        """Return the matrix of a derived operator, complex or real like the matrix of this one.

        ``sizes`` are those of :meth:`sizes_of` by default.
        """
        lengths = self.sizes_of(linop) if sizes is None else sizes
        return dense(linop, lengths, self.matrix.is_complex())

    def product(self, x: Tensor, matrix: Tensor | None = None) -> Tensor:
        """Return the matrix, or one derived from it, times the entries of x: complex and flat."""
        return matrix_product(self.matrix if matrix is None else matrix, x)


def check(known: Known, rtol: float = 1e-9) -> None:
    """Check an operator, its adjoint, both normal operators and its functions, whole and in tiles.

    Tiles are put together by hand along each dimension: tiles of one element, of more than half of
    the length and of the whole length, and tiles of two if some of them are not at an end. An
    opaque dimension must be listed as opaque in the Known. Nothing is read or written outside of
    the support of the operator or of a tile. Errors may be ``rtol``, relative to the largest entry
    of the matrix.

    Raises
    ------
    LawError
        If a matrix or the result of a function differs, a dimension is opaque without a known
        reason, or the operator is declared linear over the complex numbers and its matrix is not.

    Examples
    --------
    >>> from linops_core import Scalar
    >>> from linops_core.testing.strategies import Spaces
    >>> two = 2 * torch.eye(3, dtype=torch.complex128)
    >>> check(Known(Scalar(2.0, ("N",)), two, Spaces(("N",), ("N",), {"N": 3})))
    """

    def close(actual: Tensor, matrix: Tensor) -> bool:
        bound = rtol * max([1.0, *matrix.abs().flatten().tolist()])
        return bool(((actual - matrix).abs() <= bound).all())

    def accepts(dim: NamedDimension, reason: str) -> bool:
        # The normal of a normal has no memory of the names that the first one made.
        made_twice = dim.i > 0 and "separate dimensions along the chain" in reason
        return bool(reason) and (made_twice or dim.name in known.opaque | known.side_by_side)

    A, M = known.linop, known.matrix
    if A.is_complex_linear and not M.is_complex():
        turns = (real_matrix(1j * torch.eye(n // 2, dtype=torch.complex128)) for n in M.shape)
        of_output, of_input = turns
        check_matrix(of_output @ M, M @ of_input, close, f"{A!r}\nis_complex_linear must be False")
    with torch.no_grad():
        for linop, matrix in ((A, M), (A.H, M.mH), (A.N, M.mH @ M), (A.H.N, M @ M.mH)):
            sizes = known.sizes_of(linop)
            whole = known.dense(linop, sizes)
            check_matrix(whole, matrix, close, f"{linop!r}\nwhole")
            check_cuts(linop, matrix, sizes, close, accepts)
        for linop in (A, A.H):
            lengths = input_lengths(linop, known.sizes_of(linop))
            values = torch.linspace(-1, 2, math.prod(lengths), dtype=torch.float64)
            x = torch.complex(values, values.square()).reshape(lengths)
            check_functions(linop, x, close)


def named(known: Known) -> Known:
    """Return the same operator with its wildcards resolved."""
    ishape, oshape = (tuple(map(ND, side)) for side in (known.spaces.ishape, known.spaces.oshape))
    return replace(known, linop=known.linop.resolved(ishape=ishape, oshape=oshape))


MADE: list[Leaf] = []
"""The strategies that :func:`leaf` has made, in the order of their modules."""


class Leaf(Protocol):
    """A strategy for one kind of operator, between the given spaces or between any."""

    __name__: str

    def __call__(self, where: Spaces | None = None) -> st.SearchStrategy[Known]:
        """Return the strategy; an empty one if there is no such operator between the spaces."""


def leaf(
    ways: Callable[[Spaces], list[Way]], anywhere: st.SearchStrategy[Way] | None = None
) -> Callable[[Callable[[st.DrawFn, Way], Known]], Leaf]:
    """Make a strategy for one kind of operator from a function that draws such an operator.

    The strategy takes spaces, or none; :func:`trees` takes it as one of ``own``.

    Parameters
    ----------
    ways : function
        Returns the ways in which there is an operator between given spaces, such as the dimensions
        along which it acts; none where there is no operator. :func:`between` makes it if there is
        one way at most.
    anywhere : strategy, optional
        Draws a way if no spaces are given; by default one of those between small spaces.

    Returns
    -------
    decorator
        Of a function of ``draw`` and of a way, which returns a :class:`Known`.

    Examples
    --------
    >>> from hypothesis import given
    >>> from linops_core import Scalar
    >>> @leaf(between(lambda where: where.ishape == where.oshape))
    ... def halves(draw, where):
    ...     matrix = matrix_of(lambda o, i: 0.5 * (o == i), where)
    ...     return Known(Scalar(0.5, where.ishape), matrix, where)
    >>> @given(halves())
    ... def test_halves(known):
    ...     check(known)
    >>> test_halves()
    """

    @cache
    def small() -> list[Way]:
        return [way for where in small_spaces() for way in ways(where)]

    def decorate(build: Callable[[st.DrawFn, Way], Known]) -> Leaf:
        @st.composite
        def drawn(draw: st.DrawFn, chosen: st.SearchStrategy[Way]) -> Known:
            return build(draw, draw(chosen))

        def strategy(where: Spaces | None = None) -> st.SearchStrategy[Known]:
            if where is None and anywhere is not None:
                return drawn(anywhere)
            choices = small() if where is None else ways(replace(where, n_batch=0))
            return drawn(st.sampled_from(choices)) if choices else st.nothing()

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(strategy, name, getattr(build, name))
        MADE.append(strategy)
        return strategy

    return decorate


def between(fits: Callable[[Spaces], bool]) -> Callable[[Spaces], list[Spaces]]:
    """Return the ``ways`` of :func:`leaf` for an operator between all spaces that fit."""
    return lambda where: [where] if fits(where) else []


def matrix_of(entry: Callable[[Index, Index], complex], spaces: Spaces) -> Tensor:
    """Return the matrix whose entries are ``entry(output index, input index)``, by explicit loops.

    They are zero between unlike elements of the batch.
    """
    rows, columns = (
        [dict(zip(side, at, strict=True)) for at in product(*map(range, spaces.lengths(side)))]
        for side in (spaces.oshape, spaces.ishape)
    )
    values = [
        [entry(o, i) if all(o[dim] == i[dim] for dim in spaces.batch) else 0 for i in columns]
        for o in rows
    ]
    return torch.tensor(values, dtype=torch.complex128)


def matrix_of_ones(idims: Sequence[str], odims: Sequence[str], spaces: Spaces) -> Tensor:
    """Return the matrix with ones where the input index ``idims`` is the output index ``odims``."""
    return matrix_of(lambda o, i: [i[dim] for dim in idims] == [o[dim] for dim in odims], spaces)


def matrix_of_picks(spaces: Spaces, pick: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the matrix of an operator that picks elements; ``pick`` gets an array of numbers."""
    lengths = spaces.lengths(spaces.grid)
    numbers = torch.arange(math.prod(lengths))
    rows = pick(numbers.reshape(lengths)).reshape(-1, 1) == numbers
    return torch.kron(torch.eye(math.prod(spaces.lengths(spaces.batch))), rows).to(torch.complex128)


def complex_values(lengths: Sequence[int]) -> st.SearchStrategy[Tensor]:
    """Complex tensors of small integers, some zero."""
    return generators().map(
        lambda generator: torch.complex(
            *torch.randint(-2, 4, [2, *lengths], generator=generator).double()
        )
    )


@st.composite
def tensors(draw: st.DrawFn, lengths: Sequence[int]) -> Tensor:
    """Tensors of small integers, some zero: real or complex, with or without gradient."""
    values = draw(complex_values(lengths))
    values = values if draw(st.sampled_from(["complex", "real"])) == "complex" else values.real
    return torch.nn.Parameter(values.clone()) if draw(st.booleans()) else values.clone()


def generators() -> st.SearchStrategy[torch.Generator]:
    """Generators of random numbers, seeded."""
    return st.integers(0, 2**16).map(lambda seed: torch.Generator().manual_seed(seed))

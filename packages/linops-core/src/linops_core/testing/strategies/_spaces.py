"""Pairs of spaces, named dimensions with sizes, between which an operator acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations, product, takewhile
from typing import TypeAlias

from hypothesis import strategies as st

Space: TypeAlias = tuple[str, ...]
"""Names of the dimensions of a tensor."""

Index: TypeAlias = Mapping[str, int]
"""A position along each dimension."""

NAMES = "ABCDE"


@dataclass(frozen=True)
class Spaces:
    """The dimensions of the input and of the output of an operator, and the length of each."""

    ishape: Space
    oshape: Space
    sizes: Mapping[str, int]
    n_batch: int = 0
    """Number of first dimensions of both spaces that are a batch for an operator on the others."""

    def lengths(self, space: Sequence[str]) -> list[int]:
        """Return the size of each dimension of ``space``."""
        return [self.sizes[name] for name in space]

    @property
    def reverse(self) -> Spaces:
        """The same, the other way round."""
        return replace(self, ishape=self.oshape, oshape=self.ishape)

    @property
    def both(self) -> list[str]:
        """The dimensions of both spaces, in the order of the input."""
        return [dim for dim in self.ishape if dim in self.oshape]

    @property
    def batch(self) -> Space:
        """The dimensions of the batch."""
        return self.ishape[: self.n_batch]

    @property
    def grid(self) -> Space:
        """The dimensions of the input behind the batch."""
        return self.ishape[self.n_batch :]

    @property
    def result(self) -> Space:
        """The dimensions of the output behind the batch."""
        return self.oshape[self.n_batch :]


def same_space(where: Spaces) -> bool:
    """Whether input and output have the same dimensions in the same order."""
    return where.ishape == where.oshape


def grids_of(where: Spaces) -> list[Spaces]:
    """Return each way to divide spaces into a batch and a grid of at least one axis."""
    return [
        replace(where, n_batch=n)
        for n in range(len(where.ishape))
        if where.ishape[:n] == where.oshape[:n]
    ]


def same_lengths(where: Spaces) -> list[Spaces]:
    """Return the ways of operators that keep the length of each axis."""
    is_same = where.lengths(where.ishape) == where.lengths(where.oshape)
    return grids_of(where) if is_same else []


def renamed(where: Spaces) -> list[Spaces]:
    """Return the ways of operators from a grid to points with other names."""
    return [grids for grids in grids_of(where) if not {*grids.grid} & {*grids.result}]


@cache
def small_spaces() -> tuple[Spaces, ...]:
    """Return all pairs of spaces of at most three short dimensions, up to the names.

    The names are not in the order of the alphabet: an operator must not rely on it.
    """
    result = []
    for n_inputs, n_outputs in sorted(product(range(4), repeat=2), key=sum):
        longest = {0: 1, 1: 5, 2: 4, 3: 2}[max(n_inputs, n_outputs)]
        lengths, ishape = range(1, longest + 1), tuple("CBA"[:n_inputs])
        oshapes = permutations(["Z", "Y", "X", *ishape], n_outputs)
        for of_input, oshape in product(product(lengths, repeat=n_inputs), oshapes):
            new = [dim for dim in oshape if dim not in ishape]
            if new != ["Z", "Y", "X"][: len(new)]:
                continue
            for of_new in product(lengths, repeat=len(new)):
                sizes = dict(zip((*ishape, *new), (*of_input, *of_new), strict=True))
                result.append(Spaces(ishape, oshape, sizes))
    return tuple(result)


def sides(max_ndim: int = 2, names: str = NAMES) -> st.SearchStrategy[Space]:
    """Tuples of distinct names."""
    return st.lists(st.sampled_from(names), max_size=max_ndim, unique=True).map(tuple)


@st.composite
def spaces(
    draw: st.DrawFn, max_ndim: int = 2, max_size: int = 3, names: str = NAMES, same: bool = False
) -> Spaces:
    """Pairs of spaces, or of the ``same`` space, with ``names`` of one letter each.

    Neither has more than ``max_ndim`` dimensions, none of them longer than ``max_size``.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(spaces(same=True))
    ... def test_both_are_the_same(where):
    ...     assert where.ishape == where.oshape
    >>> test_both_are_the_same()
    """
    sizes = {name: draw(st.integers(1, max_size)) for name in names}
    ishape = draw(sides(max_ndim, names))
    return Spaces(ishape, ishape if same else draw(sides(max_ndim, names)), sizes)


def hidden(draw: st.DrawFn, space: Space, shown: Sequence[str] = ()) -> Space:
    """Return ``space`` with some of its first dimensions behind a ``...``, none of ``shown``."""
    first = [*takewhile(lambda dim: dim not in shown, space)]
    count = draw(st.integers(-1, len(first)))
    return space if count < 0 else ("...", *space[count:])

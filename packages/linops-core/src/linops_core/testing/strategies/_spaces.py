"""Pairs of spaces, named dimensions with sizes, between which an operator acts; slices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

from nameddim import NamedDimension

from ..._base._linop import NamedLinop

Space: TypeAlias = tuple[str, ...]
"""Names of the dimensions of a tensor."""

NAMES = "ABCDE"


@dataclass(frozen=True)
class Spaces:
    """Where an operator goes from and to, and how long every dimension is."""

    ishape: Space
    oshape: Space
    sizes: Mapping[str, int]

    def lengths(self, space: Space) -> list[int]:
        """Return the size of each dimension of ``space``."""
        return [self.sizes[name] for name in space]

    @property
    def reverse(self) -> Spaces:
        """The same, the other way round."""
        return Spaces(self.oshape, self.ishape, self.sizes)


def sides(max_ndim: int = 2, names: str = NAMES) -> st.SearchStrategy[Space]:
    """Tuples of distinct names."""
    return st.lists(st.sampled_from(names), max_size=max_ndim, unique=True).map(tuple)


@st.composite
def spaces(
    draw: st.DrawFn, max_ndim: int = 2, max_size: int = 3, names: str = NAMES, same: bool = False
) -> Spaces:
    """Pairs of spaces.

    Parameters
    ----------
    max_ndim : int
        Largest number of dimensions of either.
    max_size : int
        Largest size of a dimension.
    names : str
        Of one letter each.
    same : bool
        Whether both are the same space.

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


def sides_of_a_leaf(same: bool = False) -> st.SearchStrategy[Spaces]:
    """Return long sides of short dimensions, or the other way round: matrices stay small."""
    return spaces(3, 2, same=same) | spaces(2, 4, same=same)


def hidden(draw: st.DrawFn, space: Space, shown: Sequence[str]) -> tuple[str, ...]:
    """Return ``space`` with some of its first dimensions behind a ``...``, none of ``shown``."""
    count = 0
    while count < len(space) and space[count] not in shown:
        count += 1
    count = draw(st.integers(-1, count))
    return space if count < 0 else ("...", *space[count:])


@st.composite
def slices_in(draw: st.DrawFn, size: int) -> slice:
    """Slices of a dimension of that size, with both ends."""
    start = draw(st.integers(0, size - 1))
    return slice(start, draw(st.integers(start + 1, size)))


def windows_in(linop: NamedLinop) -> st.SearchStrategy[dict[NamedDimension, slice]]:
    """Slices along some of the dimensions of an operator that knows the sizes of all."""
    pieces = {dim: slices_in(linop.size(dim) or 0) for dim in linop.dims}
    return st.fixed_dictionaries({}, optional=pieces)

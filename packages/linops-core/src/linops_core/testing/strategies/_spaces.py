"""Pairs of spaces, named dimensions with sizes, between which an operator acts; slices of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

from hypothesis import strategies as st

from nameddim import NamedDimension

from ..._base._linop import NamedLinop

Space: TypeAlias = tuple[str, ...]
"""Names of the dimensions of a tensor."""

Index: TypeAlias = Mapping[str, int]
"""A position along each dimension."""

NAMES = "ABCDE"


@dataclass(frozen=True)
class Spaces:
    """Where an operator goes from and to, and how long every dimension is."""

    ishape: Space
    oshape: Space
    sizes: Mapping[str, int]

    def lengths(self, space: Sequence[str]) -> list[int]:
        """Return the size of each dimension of ``space``."""
        return [self.sizes[name] for name in space]

    @property
    def reverse(self) -> Spaces:
        """The same, the other way round."""
        return Spaces(self.oshape, self.ishape, self.sizes)

    @property
    def both(self) -> list[str]:
        """The dimensions of both spaces, in the order of the input."""
        return [dim for dim in self.ishape if dim in self.oshape]


@dataclass(frozen=True)
class Grids(Spaces):
    """Spaces whose first dimensions are a batch; an operator acts on the others."""

    n_batch: int

    @property
    def batch(self) -> Space:
        """The dimensions that both spaces begin with, or some of them."""
        return self.ishape[: self.n_batch]

    @property
    def here(self) -> Space:
        """The other dimensions of the input."""
        return self.ishape[self.n_batch :]

    @property
    def there(self) -> Space:
        """The other dimensions of the output."""
        return self.oshape[self.n_batch :]

    @property
    def is_renamed(self) -> bool:
        """Whether the operator acts between grids without a common name."""
        return not {*self.here} & {*self.there}

    def same_batch(self, o: Index, i: Index) -> bool:
        """Whether two indices are in the same element of the batch."""
        return all(o[dim] == i[dim] for dim in self.batch)


def grids_of(where: Spaces) -> list[Grids]:
    """Return each way to divide spaces into a batch and a grid of at least one axis."""
    return [
        Grids(where.ishape, where.oshape, where.sizes, n)
        for n in range(len(where.ishape))
        if where.ishape[:n] == where.oshape[:n]
    ]


@cache
def small_spaces() -> tuple[Spaces, ...]:
    """Return all pairs of spaces of at most three short dimensions, up to the names.

    The names are not in the order of the alphabet: an operator must not rely on it.
    """
    found = []
    for ndims in sorted(product(range(4), repeat=2), key=sum):
        longest = {0: 1, 1: 5, 2: 4, 3: 2}[max(ndims)]
        for lengths in product(range(1, longest + 1), repeat=ndims[0]):
            ishape = tuple("CBA"[: ndims[0]])
            for new, oshape in _others(ishape, ndims[1], longest):
                sizes = dict(zip(ishape, lengths, strict=True)) | new
                found.append(Spaces(ishape, oshape, sizes))
    return tuple(found)


def _others(ishape: Space, ndim: int, longest: int) -> Iterator[tuple[dict[str, int], Space]]:
    """Yield the spaces of dimensions of ``ishape`` and new ones, and the lengths of those."""
    for kept in product((None, *ishape), repeat=ndim):
        old = [dim for dim in kept if dim is not None]
        if len({*old}) < len(old):
            continue
        names = iter("ZYX")
        oshape = tuple(next(names) if dim is None else dim for dim in kept)
        new = [dim for dim in oshape if dim not in ishape]
        for lengths in product(range(1, longest + 1), repeat=len(new)):
            yield dict(zip(new, lengths, strict=True)), oshape


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


def hidden(draw: st.DrawFn, space: Space, shown: Sequence[str] = ()) -> Space:
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

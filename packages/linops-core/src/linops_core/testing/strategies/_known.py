"""Operators of which everything is known: the matrix, and what cannot be sliced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Protocol, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from ..._base._linop import NamedLinop
from .._tiles import sizes_of
from ._spaces import Index, Space, Spaces, small_spaces

Way = TypeVar("Way")


@dataclass(frozen=True)
class Known:
    """An operator beside what it must be.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Scalar
    >>> spaces = Spaces(("N",), ("N",), {"N": 2})
    >>> known = Known(Scalar(2.0), 2 * torch.eye(2, dtype=torch.complex128), spaces)
    >>> torch.equal(known.linop.to_dense({"...": 2}, torch.complex128), known.matrix)
    True
    """

    linop: NamedLinop
    matrix: Tensor
    """complex128, (product of output sizes, product of input sizes)."""
    spaces: Spaces
    opaque: frozenset[str] = frozenset()
    """Dimensions, without index, for which there is a reason why they cannot be sliced."""
    inner: Mapping[str, int] = field(default_factory=dict)
    """Dimensions inside of the operator that are in neither shape, with their sizes."""
    side_by_side: frozenset[str] = frozenset()
    """Dimensions along which blocks stand side by side somewhere: what sums over them (a normal
    operator) may have them in different sizes."""

    def sizes_of(self, linop: NamedLinop) -> dict[str, int]:
        """Return the size of each dimension of an operator that is derived from this one."""
        return sizes_of(linop, {**self.spaces.sizes, **self.inner})


class Leaf(Protocol):
    """A strategy for one kind of operator, between the given spaces or between any."""

    __name__: str

    def __call__(self, where: Spaces | None = None) -> st.SearchStrategy[Known]:
        """Return the strategy; an empty one if there is no such operator between the spaces."""


def leaf(
    ways: Callable[[Spaces], Iterable[Way]], anywhere: st.SearchStrategy[Way] | None = None
) -> Callable[[Callable[[st.DrawFn, Way], Known]], Leaf]:
    """Make a :class:`Leaf` of a function that draws an operator, given what it must know.

    Parameters
    ----------
    ways : function of Spaces
        Returns everything that the decorated function could be given to draw an operator between
        these spaces: nothing if there is none.
    anywhere : strategy, optional
        What the function is given where no spaces are. By default any way between small spaces.
    """

    @cache
    def small() -> list[Way]:
        return [way for where in small_spaces() for way in ways(where)]

    def decorate(build: Callable[[st.DrawFn, Way], Known]) -> Leaf:
        @st.composite
        def drawn(draw: st.DrawFn, chosen: st.SearchStrategy[Way]) -> Known:
            return build(draw, draw(chosen))

        def strategy(where: Spaces | None = None) -> st.SearchStrategy[Known]:
            if where is None:
                return drawn(st.sampled_from(small()) if anywhere is None else anywhere)
            found = list(ways(where))
            return drawn(st.sampled_from(found)) if found else st.nothing()

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(strategy, name, getattr(build, name))
        return strategy

    return decorate


def between(fits: Callable[[Spaces], bool]) -> Callable[[Spaces], list[Spaces]]:
    """Return the ways of an operator for which it is enough to know that it ``fits``."""
    return lambda where: [where] if fits(where) else []


def same_space(where: Spaces) -> bool:
    """Whether input and output have the same dimensions in the same order."""
    return where.ishape == where.oshape


def matrix_of(entry: Callable[[Index, Index], complex], spaces: Spaces) -> Tensor:
    """Return the matrix whose entries are ``entry(output index, input index)``, by explicit loops.

    Examples
    --------
    >>> spaces = Spaces(("A",), ("A",), {"A": 2})
    >>> matrix_of(lambda o, i: o["A"] - i["A"], spaces).real
    tensor([[ 0., -1.],
            [ 1.,  0.]], dtype=torch.float64)
    """
    rows = indices(spaces, spaces.oshape)
    columns = indices(spaces, spaces.ishape)
    values = [[entry(row, column) for column in columns] for row in rows]
    return torch.tensor(values, dtype=torch.complex128)


def indices(spaces: Spaces, space: Space) -> list[Index]:
    """Return all indices into a tensor of shape ``space``, the last dimension fastest."""
    ranges = [range(length) for length in spaces.lengths(space)]
    return [dict(zip(space, index, strict=True)) for index in product(*ranges)]


@st.composite
def tensors(draw: st.DrawFn, lengths: Sequence[int], kind: str | None = None) -> Tensor:
    """Tensors of small integers, some zero: real or complex, with or without gradient.

    Parameters
    ----------
    lengths : sequence of int
    kind : {"real", "complex"}, optional
        Both by default.
    """
    parts = torch.randint(-2, 4, [2, *lengths], generator=draw(generators())).double()
    kind = kind or draw(st.sampled_from(["complex", "real"]))
    values = torch.complex(*parts) if kind == "complex" else parts[0]
    return torch.nn.Parameter(values) if draw(st.booleans()) else values


def generators() -> st.SearchStrategy[torch.Generator]:
    """Generators of random numbers, seeded."""
    return st.integers(0, 2**16).map(lambda seed: torch.Generator().manual_seed(seed))

"""Hypothesis strategies for names, patterns and shapes, and brute-force matching of patterns.

Needs hypothesis (the extra ``testing``); the package itself never imports it. Parameters of the
strategies: `names` are the names to choose from, `max_size` is the greatest length of a tuple, and
`with_wildcards` allows wildcards.

Examples
--------
>>> from hypothesis import given
>>> @given(shapes("AB", with_wildcards=False))
... def test_the_adjoint_of_an_adjoint(shape):
...     assert shape.H.H == shape and shape.dims <= {"A", "B"}
>>> test_the_adjoint_of_an_adjoint()
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain, product

from hypothesis import strategies as st

from nameddim import ANY, ELLIPSES, AnyDim, NamedDimension, NamedShape
from nameddim._parse import Dims

__all__ = ["dimension_names", "dimensions", "patterns", "shapes", "sides", "wildcards", "words"]


def dimension_names() -> st.SearchStrategy[str]:
    """Valid names of a dimension, many of which end in numbers."""
    first = st.sampled_from(["A", "N", "Nx", "kx", "_", "É", "名"])
    rest = st.text(st.sampled_from("aZ_é٣0129"), max_size=5)
    return st.builds(str.__add__, first, rest)


def dimensions(names: Sequence[str] | None = None) -> st.SearchStrategy[NamedDimension]:
    """Named dimensions without wildcards; any names if `names` is None."""
    texts = dimension_names() if names is None else st.sampled_from(list(names))
    return texts.map(NamedDimension)


def wildcards() -> st.SearchStrategy[NamedDimension]:
    """The wildcards ``"..."``, ``"()"``, ``"(1)"`` and ``"(2)"``."""
    return st.sampled_from([ELLIPSES, ANY, AnyDim(1), AnyDim(2)]).map(NamedDimension)


def patterns(names: Sequence[str] = "AB", max_size: int = 4) -> st.SearchStrategy[Dims]:
    """Tuples of names and wildcards, any of which may occur several times."""
    return st.lists(dimensions(names) | wildcards(), max_size=max_size).map(tuple)


def sides(
    names: Sequence[str] = "ABCD", max_size: int = 4, with_wildcards: bool = True
) -> st.SearchStrategy[Dims]:
    """Tuples that a shape can have: only ``"()"`` may occur several times."""
    dims = dimensions(names) | wildcards() if with_wildcards else dimensions(names)
    # Each "()" counts as a different element.
    kept = st.lists(
        st.tuples(dims, st.integers(0, 2)),
        max_size=max_size,
        unique_by=lambda pair: (pair[0], pair[1] if pair[0] == ANY else 0),
    )
    return kept.map(lambda pairs: tuple(dim for dim, _ in pairs))


def shapes(
    names: Sequence[str] = "ABCD", max_size: int = 3, with_wildcards: bool = True
) -> st.SearchStrategy[NamedShape]:
    """Shapes with an input, an output and sometimes a batch shape."""
    side = sides(names, max_size, with_wildcards)
    return st.builds(NamedShape, side, side) | st.builds(NamedShape, side, side, batch_shape=side)


def words(
    pattern: Sequence[str], alphabet: Sequence[str], max_length: int
) -> frozenset[tuple[str, ...]]:
    """All tuples that `pattern` stands for, found by trying each.

    They consist of the names in `alphabet` (single characters) and have at most `max_length`
    elements.

    Examples
    --------
    >>> sorted(words(("...", "A"), "AB", 2))
    [('A',), ('A', 'A'), ('B', 'A')]
    """
    return _words(tuple(map(str, pattern)), tuple(alphabet), max_length)


@cache
def _words(
    pattern: tuple[str, ...], alphabet: tuple[str, ...], max_length: int
) -> frozenset[tuple[str, ...]]:
    expression = re.compile(
        "".join(".*" if dim == ELLIPSES else "." if dim[0] == "(" else dim for dim in pattern)
    )
    tried = chain.from_iterable(product(alphabet, repeat=n) for n in range(max_length + 1))
    return frozenset(word for word in tried if expression.fullmatch("".join(word)))

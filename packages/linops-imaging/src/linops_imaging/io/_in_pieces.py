"""Parts of an array that are read or written at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from types import EllipsisType

AT_ONCE = 2**18
"""Numbers in a piece."""


def indices_in_pieces(shape: Sequence[int]) -> Iterator[tuple[int | slice | EllipsisType, ...]]:
    """Yield the indices of pieces of an array, in the order of its elements (last axis first)."""
    n_outer, n_inner = len(shape), 1
    while n_outer and n_inner * shape[n_outer - 1] <= AT_ONCE:
        n_outer -= 1
        n_inner *= shape[n_outer]
    if not n_outer:
        yield (...,)
        return
    step = max(1, AT_ONCE // n_inner)
    for outer in product(*map(range, shape[: n_outer - 1])):
        for start in range(0, shape[n_outer - 1], step):
            yield (*outer, slice(start, start + step), ...)

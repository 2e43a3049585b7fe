"""Sets of bytes as products of digits.

Steps of rows, of columns and of bytes make a grid: an address has one digit for each, as in a
number of mixed radix, and a slice is a product of one set of digits for each step. Steps of 2 and 3
columns repeat together after 6, which is one more step of the grid: so a slice has few products,
and each has few digits, however many elements it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, lcm
from typing import NamedTuple, TypeAlias

from ._layout import Dims, Layout, normalise, run_layout

MAX_TURNS = 64
_LARGEST = 1 << 62  # digits are integers of 64 bits

Product: TypeAlias = tuple[Layout, ...]
"""Sets of digits, one for each period of a grid: all sums of one multiple of each."""


class _Turn(NamedTuple):
    """Bytes within one turn of a period, and the number of turns in which they repeat."""

    first: int
    start: int
    dims: Dims
    n_turns: int


def grid_of(layouts: Iterable[Layout]) -> list[int]:
    """The periods of a grid in which most slices of one tensor are a few products, from 1 on."""
    kinds = {layout.dims for layout in layouts}
    strides = sorted({stride for dims in kinds for stride, _ in dims} - {1})
    grid, alike = [1], [1]
    for place, stride in enumerate(strides):
        # The larger steps are multiples of the period, and what is below repeats in it or fits.
        period = gcd(*strides[place:])
        if period > grid[-1] and all(_repeats(dims, stride, period) for dims in kinds):
            grid += [*_common(alike, grid[-1], period), period]
            alike = []
        alike.append(stride)
    return grid + _common(alike, grid[-1], _LARGEST)


def _common(strides: Sequence[int], low: int, high: int) -> list[int]:
    """The period after which all steps repeat together, if it lies between two others."""
    period = lcm(*strides)
    return [period] if low < period < high else []


def _repeats(dims: Dims, past: int, period: int) -> bool:
    """Whether the steps below `past` stay within one period, or are parts of it."""
    reach = 1
    for stride, count in dims:
        if stride < past:
            reach += stride * (count - 1)
            if reach > period and period % stride:
                return False
    return True


def products_of(start: int, dims: Dims, grid: Sequence[int]) -> list[Product] | None:
    """The disjoint products that a set of bytes consists of; None if it has none, or too many."""
    *below, period = grid
    if not below:
        return [(_digits(start, dims),)]
    outer = [(stride // period, count) for stride, count in dims if not stride % period]
    turns = _turns(start, tuple(dim for dim in dims if dim[0] % period), period)
    products: list[Product] = []
    for turn in turns or ():
        inner = products_of(turn.start, turn.dims, below)
        if inner is None:
            return None
        digits = _digits(turn.first, (*outer, (1, turn.n_turns)))
        products += [(*product, digits) for product in inner]
    return products or None


def _digits(start: int, dims: Sequence[tuple[int, int]]) -> Layout:
    if all([stride == 1 for stride, _ in dims]):  # as most are
        return run_layout(start, start + 1 + sum([count - 1 for _, count in dims]))
    strides, counts = zip(*dims, strict=True)
    digits = normalise(start, counts, strides, 1)
    assert digits is not None  # no dimension is empty
    return digits


def _turns(start: int, dims: Dims, period: int) -> list[_Turn] | None:
    """A set of bytes, cut where a turn of the period ends; None if that cuts something smaller."""
    reach = sum([stride * (count - 1) for stride, count in dims])
    turn, start = divmod(start, period)
    if start + reach < period:
        return [_Turn(turn, start, dims, 1)]
    *inner, (stride, count) = dims
    width = reach - stride * (count - 1)
    turns: list[_Turn] = []
    first = 0
    while first < count:
        more, at = divmod(start + first * stride, period)
        n = min(count - first, (period - 1 - at) // stride + 1)
        if at + (n - 1) * stride + width >= period or len(turns) == MAX_TURNS:
            return None
        is_whole = period % stride == 0 and n == period // stride
        n_turns = (count - first) // n if is_whole else 1
        turns.append(_Turn(turn + more, at, (*inner, (stride, n)), n_turns))
        first += n * n_turns
    return turns

"""Moving overlapping views closer together: a box of a grid without the bytes around it.

A device that gets some columns of a matrix needs only the box of these columns, though their
addresses span nearly all of the matrix. Addresses in such a box have digits, one for each stride.
The digits are unique as long as the lower digits together never reach the next stride. A view
whose elements all have such digits is still a view when the digits get smaller strides, and two
views share exactly the same bytes as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple

import torch

from .._modules._rebuild import strided, view_like
from .._views._grid import products_of
from .._views._view import View
from ._plan import Group, Piece
from ._spans import ByteSpan, CopyPair

# Word sizes in bytes: a transfer uses the largest that divides all offsets, lengths and steps.
_WORDS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
_MAX_ORIGINS = 16


class BoxAxis(NamedTuple):
    """One digit of the addresses in a box, from `first` to before `past`."""

    period: int  # source bytes from one value of the digit to the next
    first: int
    past: int
    step: int  # bytes of the box from one value to the next


class Box(NamedTuple):
    """The bytes of a span whose digits lie in a box; the first of `axes` counts single bytes."""

    span: ByteSpan
    origin: int  # address whose digits are all 0
    axes: tuple[BoxAxis, ...]

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of the span."""
        return self.span.pieces

    @property
    def nbytes(self) -> int:
        """Size of the copy."""
        return self.axes[-1].step * (self.axes[-1].past - self.axes[-1].first)

    def transfers(self, data: torch.Tensor) -> Iterator[CopyPair]:
        """One transfer of all bytes of the box."""
        source, (single, *others) = self.span.gathered(), self.axes
        offset = sum(axis.period * axis.first for axis in self.axes)
        offset += self.origin - self.span.start
        length = single.past - single.first
        grain = gcd(offset, length, *[number for a in others for number in (a.period, a.step)])
        word, dtype = next((n, dtype) for n, dtype in _WORDS if grain % n == 0)
        sizes = [axis.past - axis.first for axis in reversed(others)] + [length // word]
        periods = [axis.period // word for axis in reversed(others)] + [1]
        steps = [axis.step // word for axis in reversed(others)] + [1]
        empty = [torch.empty(0, dtype=dtype, device=memory.device) for memory in (data, source)]
        yield (
            strided(data, 0, sizes, steps, empty[0]),
            strided(source, offset, sizes, periods, empty[1]),
        )

    def holds(self, piece: Piece) -> bool:
        """Whether the box has a place for all bytes of a piece, and strides for its elements."""
        digits = self._digits(piece)
        return digits is not None and all(
            axis.first <= low and high <= axis.past
            for (low, high), axis in zip(digits, self.axes, strict=True)
        )

    def view(self, piece: Piece, data: torch.Tensor) -> torch.Tensor:
        """The same view in the copy, with the steps of the box as strides."""
        digits = self._digits(piece) or []
        offset = sum(
            (low - axis.first) * axis.step for (low, _), axis in zip(digits, self.axes, strict=True)
        )
        steps = {axis.period: axis.step for axis in self.axes}
        strides = [
            steps[stride] // piece.view.itemsize if size > 1 and stride else 0
            for size, stride in zip(piece.view.sizes, piece.view.strides, strict=True)
        ]
        return view_like(piece.tensor, data, offset, strides)

    def _digits(self, piece: Piece) -> list[tuple[int, int]] | None:
        digits = _digits([piece.view], self.origin, [axis.period for axis in self.axes])
        return None if digits is None else digits[0]


def box_of(span: ByteSpan, group: Group) -> Box | None:
    """The smallest box around the nonempty pieces of a span; None unless it saves bytes."""
    views = [piece.view for piece in span.pieces]
    periods = sorted({1}.union(*map(_strides, views)))
    for origin in [*dict.fromkeys([group.start, *[view.address for view in views]])][:_MAX_ORIGINS]:
        of_views = _digits(views, origin, periods)
        if of_views is None:
            continue
        axes: list[BoxAxis] = []
        step = 1
        first = last = origin
        for period, digits in zip(periods, zip(*of_views, strict=True), strict=True):
            low, high = min(low for low, _ in digits), max(high for _, high in digits)
            axes.append(BoxAxis(period, low, high, step))
            step *= high - low
            first += period * low
            last += period * (high - 1)
        # Steps must be multiples of the element size, because strides count whole elements.
        whole = all(axis.step % view.itemsize == 0 for axis in axes[1:] for view in views)
        if whole and span.start <= first and last < span.stop:
            box = Box(span, origin, tuple(axes))
            return box if box.nbytes < span.nbytes else None
    return None


def _strides(view: View) -> set[int]:
    return {stride for size, stride in zip(view.sizes, view.strides, strict=True) if size > 1} - {0}


def _digits(
    views: Sequence[View], origin: int, periods: Sequence[int]
) -> list[list[tuple[int, int]]] | None:
    """First and past-the-last value of every digit of the bytes of views; None if digits carry."""
    layouts = [layout for view in views if (layout := view.layout())]
    if len(layouts) < len(views) or not set().union(*map(_strides, views)) <= {*periods}:
        return None
    ranges: list[list[tuple[int, int]]] = []
    for layout in layouts:
        products = products_of(layout.start - origin, layout.dims, periods) or []
        if len(products) != 1 or not all(digits.is_run for digits in products[0]):
            return None
        ranges.append([digits[:2] for digits in products[0]])
    return ranges

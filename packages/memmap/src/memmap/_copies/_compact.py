"""Views that overlap, moved closer together: a box of a grid, without what lies around it.

Tiles of one tensor step along the same strides, and each covers a box of the grid that these
strides span. A device that gets some columns of a matrix needs only the box of these columns,
though their addresses span nearly all of the matrix. Addresses in such a box have digits, one for
each stride, that are unique as long as the lower digits together never reach the next stride. A
view whose elements all have such digits is still a view when the digits get smaller strides, and
two views share exactly the bytes that they shared before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import torch

from .._modules._rebuild import strided, view_like
from .._views._view import View
from ._allocate import UNDER_WAY, empty_bytes
from ._buffers import Span, fake_mode_of, gathered, has_data
from ._plan import Group, Piece

# So many bytes are moved at once, if everything is a multiple of them.
_WORDS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
_MAX_ORIGINS = 16


class Axis(NamedTuple):
    """One digit of the addresses in a box.

    Attributes
    ----------
    period : int
        Source bytes from one value of the digit to the next.
    first, past : int
        Values in the box.
    step : int
        Bytes of the box from one value to the next.
    """

    period: int
    first: int
    past: int
    step: int


class Grid(NamedTuple):
    """Where a box lies among the source addresses, and how large it is.

    Attributes
    ----------
    origin : int
        Address whose digits are all 0.
    axes : tuple of Axis
        From the digit of single bytes on.
    """

    origin: int
    axes: tuple[Axis, ...]

    @property
    def periods(self) -> list[int]:
        """Source bytes from one value of each digit to the next."""
        return [axis.period for axis in self.axes]

    @property
    def nbytes(self) -> int:
        """Bytes of the box."""
        return self.axes[-1].step * (self.axes[-1].past - self.axes[-1].first)


class Box(NamedTuple):
    """A box of a grid of source addresses, and fresh memory for exactly its bytes.

    Attributes
    ----------
    grid : Grid
        The source addresses.
    data : torch.Tensor
        uint8, one-dimensional.
    """

    grid: Grid
    data: torch.Tensor

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece have a place here, and its elements their steps."""
        digits = _digits(piece.view, self.grid.origin, self.grid.periods)
        return digits is not None and all(
            axis.first <= low and high <= axis.past
            for (low, high), axis in zip(digits, self.grid.axes, strict=True)
        )

    def view(self, piece: Piece) -> torch.Tensor:
        """The tensor that stands for a piece, which must have its place here."""
        axes = self.grid.axes
        digits = _digits(piece.view, self.grid.origin, self.grid.periods)
        assert digits is not None
        offset = sum(
            (low - axis.first) * axis.step for (low, _), axis in zip(digits, axes, strict=True)
        )
        steps = {axis.period: axis.step for axis in axes}
        itemsize = piece.view.itemsize
        strides = [
            steps[stride] // itemsize if size > 1 and stride else 0
            for size, stride in zip(piece.view.sizes, piece.view.strides, strict=True)
        ]
        storage = self.data.untyped_storage()
        return view_like(piece.tensor, storage, offset, strides, device=self.data.device)


def grid_of(span: Span, group: Group) -> Grid | None:
    """The smallest box that holds all pieces of a span.

    Parameters
    ----------
    span : Span
        Pieces that are not empty.
    group : Group
        Where the span lies.

    Returns
    -------
    Grid or None
        None if the pieces are not boxes of one grid, or the box is no smaller than the span.
    """
    origins = dict.fromkeys([group.start, *[piece.view.address for piece in span.pieces]])
    for origin in list(origins)[:_MAX_ORIGINS]:
        axes = _axes_of(span, origin)
        if axes is not None:
            grid = Grid(origin, axes)
            return grid if grid.nbytes < span.stop - span.start else None
    return None


def copy_box(span: Span, group: Group, grid: Grid, device: torch.device, non_blocking: bool) -> Box:
    """Fresh memory with the bytes of a box.

    Parameters
    ----------
    span : Span
        Holds the box.
    group : Group
        Where the span lies.
    grid : Grid
        What to copy; see `grid_of`.
    device : torch.device
        Where to.
    non_blocking : bool
        Whether the host may go on before the bytes have arrived.

    Returns
    -------
    Box
        As many bytes as the box has.
    """
    with fake_mode_of(group):
        data = empty_bytes(grid.nbytes, device)
        if device.type != "meta" and has_data(group):
            _fill(data, span, grid, non_blocking)
    return Box(grid, data)


def _axes_of(span: Span, origin: int) -> tuple[Axis, ...] | None:
    """Axes of the smallest box around all pieces, if there is one within the span."""
    periods = {1}
    for piece in span.pieces:
        for size, stride in zip(piece.view.sizes, piece.view.strides, strict=True):
            if size > 1 and stride:
                periods.add(stride)
    ordered = sorted(periods)
    ranges = [_digits(piece.view, origin, ordered) for piece in span.pieces]
    axes: list[Axis] = []
    step = 1
    first = last = origin
    if None in ranges:
        return None
    for position, period in enumerate(ordered):
        low = min(digits[position][0] for digits in ranges if digits)
        high = max(digits[position][1] for digits in ranges if digits)
        axes.append(Axis(period, low, high, step))
        step *= high - low
        first += period * low
        last += period * (high - 1)
    itemsizes = {piece.view.itemsize for piece in span.pieces}
    # Elements must not only keep their bytes together, but also be whole elements apart.
    whole = all(axis.step % itemsize == 0 for axis in axes[1:] for itemsize in itemsizes)
    inside = span.start <= first and last < span.stop
    return tuple(axes) if whole and inside else None


def _digits(view: View, origin: int, periods: Sequence[int]) -> list[tuple[int, int]] | None:
    """First and past-the-last value of every digit of a view's bytes; None if digits carry."""
    rest = view.address - origin
    widths = dict.fromkeys(periods, 0)
    widths[1] = view.itemsize - 1
    for size, stride in zip(view.sizes, view.strides, strict=True):
        if size > 1 and stride:
            if stride not in widths:
                return None
            widths[stride] += size - 1
    digits = []
    for period in reversed(periods):
        digit, rest = divmod(rest, period)
        digits.append((digit, digit + widths[period] + 1))
    digits.reverse()
    reach = 0
    for (_, high), period, after in zip(digits, periods, periods[1:], strict=False):
        reach += period * (high - 1)
        if reach >= after:
            return None
    return digits


def _fill(data: torch.Tensor, span: Span, grid: Grid, non_blocking: bool) -> None:
    """Copy the bytes of a box out of a span."""
    origin, axes = grid
    source = gathered(span)
    offset = sum(axis.period * axis.first for axis in axes) + origin - span.start
    sizes = [axis.past - axis.first for axis in axes]
    numbers = (offset, sizes[0], *[number for a in axes[1:] for number in (a.period, a.step)])
    grain = gcd(*numbers)
    word, dtype = next((n, dtype) for n, dtype in _WORDS if grain % n == 0)
    sizes[0] //= word
    periods = [axis.period // word for axis in axes[1:]]
    steps = [axis.step // word for axis in axes[1:]]
    _send(
        strided(data, 0, sizes[::-1], [*steps[::-1], 1], dtype),
        strided(source, offset, sizes[::-1], [*periods[::-1], 1], dtype),
        non_blocking,
    )


def _send(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
    """Copy in portions, if torch would make a contiguous copy for the journey."""
    if source.device != target.device and source.numel() * source.itemsize > UNDER_WAY:
        axis = next(axis for axis, size in enumerate(source.shape) if size > 1)
        half = source.shape[axis] // 2
        rest = source.shape[axis] - half
        for start, size in ((0, half), (half, rest)):
            part = target.narrow(axis, start, size), source.narrow(axis, start, size)
            _send(*part, non_blocking)
    else:
        target.copy_(source, non_blocking=non_blocking)

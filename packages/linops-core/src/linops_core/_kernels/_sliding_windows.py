"""Sliding windows: the blocks of an array as a view, and the sum of blocks in an array."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from ._dtype import at_least_single
from ._linear_function import linear_function
from ._picked_axis import PickedAxis, picked
from ._slices import clipped_slice, is_empty


class SlidingWindows(NamedTuple):
    """Equally spaced windows along one axis: element j of window i is ``offset + i stride + j``.

    Elements outside of the axis are zero. The axis may be a part of a longer one.
    """

    size: int
    """Of the axis."""
    offset: int
    n_windows: int
    stride: int
    length: int
    """Of each window."""

    @property
    def span(self) -> int:
        """Length from the start of the first window to the end of the last."""
        return (self.n_windows - 1) * self.stride + self.length if self.n_windows else 0

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Length of the axis, number of windows and length of each."""
        return self.size, self.n_windows, self.length

    @property
    def supports(self) -> tuple[slice, slice, slice]:
        """The slice of the axis in windows, the windows that overlap it, and the slice of these."""
        first = -(self.offset + self.length) // self.stride + 1
        which = clipped_slice(first, -((self.offset - self.size) // self.stride), self.n_windows)
        if is_empty(which):
            return slice(0, 0), which, slice(0, 0)
        start = self.offset + which.start * self.stride
        last = self.offset + (which.stop - 1) * self.stride
        axis = clipped_slice(start, last + self.length, self.size)
        return axis, which, clipped_slice(-last, self.size - start, self.length)

    def cut(
        self,
        of_axis: slice | None = None,
        which: slice | None = None,
        within: slice | None = None,
    ) -> SlidingWindows:
        """Return the windows between slices of the axis, of the windows, and of each window."""
        size, offset, count, stride, length = self
        if of_axis is not None:
            offset, size = offset - of_axis.start, of_axis.stop - of_axis.start
        if which is not None:
            offset, count = offset + which.start * stride, which.stop - which.start
        if within is not None:
            offset, length = offset + within.start, within.stop - within.start
        return SlidingWindows(size, offset, count, stride, length)

    def on_span(self) -> tuple[PickedAxis, SlidingWindows]:
        """Return the part of the axis that the windows cover, and the windows on this part."""
        spanned = self._replace(size=self.span, offset=0)
        return PickedAxis(self.size, self.span, self.offset), spanned


def unfolded(x: Tensor, windows: Sequence[SlidingWindows]) -> Tensor:
    """Return all windows of x (..., grid) as (..., counts, lengths); a view if all are inside."""
    axes, spanned = zip(*(axis.on_span() for axis in windows), strict=True)
    x = picked(x, axes)
    return linear_function(partial(_unfold, windows=spanned), partial(_fold, windows=spanned), x)


def _unfold(x: Tensor, windows: Sequence[SlidingWindows]) -> Tensor:
    for axis, each in enumerate(windows, x.ndim - len(windows)):
        x = x.unfold(axis, each.length, each.stride)
    return x


def folded(blocks: Tensor, windows: Sequence[SlidingWindows]) -> Tensor:
    """Return the sum of all windows at their places, the adjoint of :func:`unfolded`.

    With m = ceil(length / stride), every m-th window is disjoint. So m sets of windows along each
    axis are added one after another, always in the same order. Adjacent windows are joined as a
    view if possible.
    """
    first = blocks.ndim - 2 * len(windows)
    blocks, windows = overlapping_blocks(blocks, windows, first)
    if not all(axis.n_windows for axis in windows):
        return blocks.new_zeros(*blocks.shape[:first], *[axis.size for axis in windows])
    return linear_function(
        partial(_fold, windows=windows), partial(unfolded, windows=windows), blocks
    )


def overlapping_blocks(
    blocks: Tensor, windows: Sequence[SlidingWindows], first: int
) -> tuple[Tensor, list[SlidingWindows]]:
    """Return the blocks that overlap the grid, which starts at axis ``first``, as a view."""
    inside = []
    for number, axis in enumerate(windows, first):
        which = axis.supports[1]
        if which != slice(0, axis.n_windows):
            blocks = blocks.narrow(number, which.start, which.stop - which.start)
        inside.append(axis.cut(which=which))
    return blocks, inside


def _fold(blocks: Tensor, windows: Sequence[SlidingWindows]) -> Tensor:
    ndim = len(windows)
    batch = blocks.shape[: blocks.ndim - 2 * ndim]
    n_batch = len(batch)
    if all(
        offset == 0 and count * length == size and (stride == length or count == 1)
        for size, offset, count, stride, length in windows
    ):  # each element is in one window
        pairs = (n_batch + axis + ndim * side for axis in range(ndim) for side in (0, 1))
        sizes = [axis.size for axis in windows]
        return blocks.permute(*range(n_batch), *pairs).reshape(*batch, *sizes)
    # The allocation begins with the axis or the first window, and ends with a whole step.
    starts = [max(0, -axis.offset) for axis in windows]
    strides = [axis.stride if axis.n_windows > 1 else axis.length for axis in windows]
    kinds = [-(-axis.length // stride) for axis, stride in zip(windows, strides, strict=True)]
    lengths = [
        start + max(axis.size, axis.offset + (axis.n_windows + n_kinds - 1) * stride)
        for axis, start, stride, n_kinds in zip(windows, starts, strides, kinds, strict=True)
    ]
    whole = blocks.new_zeros(*batch, *lengths, dtype=at_least_single(blocks.dtype))
    choices = [range(min(axis.n_windows, n)) for axis, n in zip(windows, kinds, strict=True)]
    for chosen in product(*choices):
        target, part = whole, blocks
        for number in reversed(range(ndim)):
            axis, step = n_batch + number, kinds[number] * strides[number]
            if kinds[number] > 1:  # else it is all, which a batch of gradients cannot slice
                part = part[(slice(None),) * axis + (slice(chosen[number], None, kinds[number]),)]
            first = starts[number] + windows[number].offset + chosen[number] * strides[number]
            # Not unfold: compiled code loses what is written into such a view.
            cells = target.narrow(axis, first, part.shape[axis] * step)
            cells = cells.view(
                *cells.shape[:axis], part.shape[axis], step, *cells.shape[axis + 1 :]
            )
            target = cells.narrow(axis + 1, 0, windows[number].length)
        counts = range(n_batch, target.ndim, 2)
        target = target.permute(*range(n_batch), *counts, *(at + 1 for at in counts))
        target.add_(part)
    for axis, (start, each) in enumerate(zip(starts, windows, strict=True), n_batch):
        whole = whole.narrow(axis, start, each.size)
    return whole.to(blocks.dtype)


def flat_positions(axes: Sequence[Tensor], grid: Sequence[int]) -> Tensor:
    """Return the position in a flattened grid of each combination of positions along its axes."""
    flat, *others = axes
    for size, at in zip(grid[1:], others, strict=True):
        flat = flat.unsqueeze(-1) * size + at
    return flat


def coverage(windows: SlidingWindows, like: Tensor) -> Tensor:
    """Return the number of windows of each element of an axis, in the precision of ``like``."""
    size, offset, count, stride, length = windows
    at = torch.arange(size, device=like.device) - offset
    last = (at.div(stride, rounding_mode="floor")).clamp(max=count - 1)
    first = ((at - length).div(stride, rounding_mode="floor") + 1).clamp(min=0)
    return (last - first + 1).clamp(min=0).to(like.real.dtype)

"""Sliding blocks of an array as a view, and the sum of blocks in an array."""

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


class AxisBlocks(NamedTuple):
    """Equally spaced blocks along one axis: element j of block i is ``offset + i stride + j``.

    Elements outside of the axis are zero. The axis may be a part of a longer one.
    """

    size: int
    """Of the axis."""
    offset: int
    n_blocks: int
    stride: int
    length: int
    """Of each block."""

    @property
    def span(self) -> int:
        """Length from the start of the first block to the end of the last."""
        return (self.n_blocks - 1) * self.stride + self.length if self.n_blocks else 0

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Length of the axis, number of blocks and length of each."""
        return self.size, self.n_blocks, self.length

    @property
    def supports(self) -> tuple[slice, slice, slice]:
        """The slice of the axis in blocks, the blocks that overlap it, and the slice of these."""
        first = -(self.offset + self.length) // self.stride + 1
        which = clipped_slice(first, -((self.offset - self.size) // self.stride), self.n_blocks)
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
    ) -> AxisBlocks:
        """Return the blocks between slices of the axis, of the blocks, and of each block."""
        size, offset, count, stride, length = self
        if of_axis is not None:
            offset, size = offset - of_axis.start, of_axis.stop - of_axis.start
        if which is not None:
            offset, count = offset + which.start * stride, which.stop - which.start
        if within is not None:
            offset, length = offset + within.start, within.stop - within.start
        return AxisBlocks(size, offset, count, stride, length)

    def on_span(self) -> tuple[PickedAxis, AxisBlocks]:
        """Return the part of the axis that the blocks cover, and the blocks on this part."""
        spanned = self._replace(size=self.span, offset=0)
        return PickedAxis(self.size, self.span, self.offset), spanned


def unfolded(x: Tensor, axes: Sequence[AxisBlocks]) -> Tensor:
    """Return all blocks of x (..., grid) as (..., counts, lengths); a view if all are inside."""
    picks, spanned = zip(*(axis.on_span() for axis in axes), strict=True)
    x = picked(x, picks)
    return linear_function(partial(_unfold, axes=spanned), partial(_fold, axes=spanned), x)


def _unfold(x: Tensor, axes: Sequence[AxisBlocks]) -> Tensor:
    for axis, each in enumerate(axes, x.ndim - len(axes)):
        x = x.unfold(axis, each.length, each.stride)
    return x


def folded(blocks: Tensor, axes: Sequence[AxisBlocks]) -> Tensor:
    """Return the sum of all blocks where they are in the array, the adjoint of :func:`unfolded`.

    With m = ceil(length / stride), every m-th block is disjoint. So m sets of blocks along each
    axis are added one after another, always in the same order. Adjacent blocks are joined as a
    view if possible.
    """
    first = blocks.ndim - 2 * len(axes)
    blocks, axes = overlapping_blocks(blocks, axes, first)
    if not all(axis.n_blocks for axis in axes):
        return blocks.new_zeros(*blocks.shape[:first], *[axis.size for axis in axes])
    return linear_function(partial(_fold, axes=axes), partial(unfolded, axes=axes), blocks)


def overlapping_blocks(
    blocks: Tensor, axes: Sequence[AxisBlocks], first: int
) -> tuple[Tensor, list[AxisBlocks]]:
    """Return the blocks that overlap the grid, which starts at axis ``first``, as a view."""
    inside = []
    for number, axis in enumerate(axes, first):
        which = axis.supports[1]
        if which != slice(0, axis.n_blocks):
            blocks = blocks.narrow(number, which.start, which.stop - which.start)
        inside.append(axis.cut(which=which))
    return blocks, inside


def _fold(blocks: Tensor, axes: Sequence[AxisBlocks]) -> Tensor:
    ndim = len(axes)
    batch = blocks.shape[: blocks.ndim - 2 * ndim]
    n_batch = len(batch)
    if all(
        offset == 0 and count * length == size and (stride == length or count == 1)
        for size, offset, count, stride, length in axes
    ):  # each element is in one block
        pairs = (n_batch + axis + ndim * side for axis in range(ndim) for side in (0, 1))
        sizes = [axis.size for axis in axes]
        return blocks.permute(*range(n_batch), *pairs).reshape(*batch, *sizes)
    # The allocation begins with the axis or the first block, and ends with a whole step.
    starts = [max(0, -axis.offset) for axis in axes]
    strides = [axis.stride if axis.n_blocks > 1 else axis.length for axis in axes]
    kinds = [-(-axis.length // stride) for axis, stride in zip(axes, strides, strict=True)]
    lengths = [
        start + max(axis.size, axis.offset + (axis.n_blocks + n_kinds - 1) * stride)
        for axis, start, stride, n_kinds in zip(axes, starts, strides, kinds, strict=True)
    ]
    whole = blocks.new_zeros(*batch, *lengths, dtype=at_least_single(blocks.dtype))
    choices = [range(min(axis.n_blocks, n)) for axis, n in zip(axes, kinds, strict=True)]
    for chosen in product(*choices):
        target, part = whole, blocks
        for number in reversed(range(ndim)):
            axis, step = n_batch + number, kinds[number] * strides[number]
            if kinds[number] > 1:  # else it is all, which a batch of gradients cannot slice
                part = part[(slice(None),) * axis + (slice(chosen[number], None, kinds[number]),)]
            first = starts[number] + axes[number].offset + chosen[number] * strides[number]
            # Not unfold: compiled code loses what is written into such a view.
            cells = target.narrow(axis, first, part.shape[axis] * step)
            cells = cells.view(
                *cells.shape[:axis], part.shape[axis], step, *cells.shape[axis + 1 :]
            )
            target = cells.narrow(axis + 1, 0, axes[number].length)
        counts = range(n_batch, target.ndim, 2)
        target = target.permute(*range(n_batch), *counts, *(at + 1 for at in counts))
        target.add_(part)
    for axis, (start, each) in enumerate(zip(starts, axes, strict=True), n_batch):
        whole = whole.narrow(axis, start, each.size)
    return whole.to(blocks.dtype)


def flat_positions(axes: Sequence[Tensor], grid: Sequence[int]) -> Tensor:
    """Return the position in a flattened grid of each combination of positions along its axes."""
    flat, *others = axes
    for size, at in zip(grid[1:], others, strict=True):
        flat = flat.unsqueeze(-1) * size + at
    return flat


def coverage(blocks: AxisBlocks, like: Tensor) -> Tensor:
    """Return the number of blocks of each element of an axis, in the precision of ``like``."""
    size, offset, count, stride, length = blocks
    at = torch.arange(size, device=like.device) - offset
    last = (at.div(stride, rounding_mode="floor")).clamp(max=count - 1)
    first = ((at - length).div(stride, rounding_mode="floor") + 1).clamp(min=0)
    return (last - first + 1).clamp(min=0).to(like.real.dtype)

"""The set of bytes that a strided view touches, in a normal form.

A view touches ``{start + sum_k i_k * stride_k : 0 <= i_k < count_k}``, where the bytes of one
element are one more dimension, of stride 1. The normal form removes differences that do not change
the set: order, sign, dimensions of size 1 or stride 0, and dimensions that can be merged. So equal
sets usually have equal tuples.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

Dims: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs (stride, count)."""


class Layout(NamedTuple):
    """A set of bytes: ``start`` plus every sum of a multiple of each stride.

    Attributes
    ----------
    start : int
        Address of the first byte.
    stop : int
        One past the address of the last byte.
    dims : tuple of (int, int)
        Strides in bytes, positive and ascending, with their counts of at least 2. The layout of a
        single byte has ``((1, 1),)``.
    """

    start: int
    stop: int
    dims: Dims

    @property
    def is_run(self) -> bool:
        """Whether the bytes are one contiguous run."""
        return len(self.dims) == 1 and self.dims[0][0] == 1

    @property
    def is_nested(self) -> bool:
        """Whether different indices give different bytes: each stride exceeds all smaller ones."""
        reach = 1
        for stride, count in self.dims:
            if stride < reach:
                return False
            reach += stride * (count - 1)
        return True

    @property
    def n_points(self) -> int:
        """Number of indices. If the layout is nested, this is the number of bytes."""
        return prod([count for _, count in self.dims])

    @property
    def n_runs(self) -> int:
        """Number of contiguous runs that one after the other reach all bytes."""
        return prod([count for stride, count in self.dims if stride > 1])


def run_layout(start: int, stop: int) -> Layout:
    """All bytes from `start` up to, but without, `stop`."""
    return Layout(start, stop, ((1, stop - start),))


def normalise(
    start: int, sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> Layout | None:
    """Normal form of a strided view whose element with index 0 is at `start`; None if empty."""
    relative = _relative_layout(sizes, strides, itemsize)
    if relative is None:
        return None
    low, high, dims = relative
    # This takes a third of the time of the constructor.
    return tuple.__new__(Layout, (start + low, start + high, dims))


# The tensors of one program have few shapes, so the cache answers most calls.
@lru_cache(maxsize=8192)
def _relative_layout(
    sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> Layout | None:
    low, high = 0, itemsize
    dims = []
    for size, stride in zip(sizes, strides, strict=True):
        if size > 1:
            reach = stride * (size - 1)
            if reach > 0:
                high += reach
                dims.append((stride, size))
            elif reach:
                low += reach
                dims.append((-stride, size))
        elif size == 0:
            return None
    if itemsize == 0:
        return None
    dims.sort()
    merged = []
    stride, count = 1, itemsize
    for next_stride, next_count in dims:
        # If the windows of the outer dimension touch or overlap on the grid of the inner one, the
        # two dimensions are one longer dimension.
        if next_stride <= stride * count and next_stride % stride == 0:
            count += next_stride // stride * (next_count - 1)
        else:
            if count > 1:
                merged.append((stride, count))
            stride, count = next_stride, next_count
    merged.append((stride, count))
    return Layout(low, high, tuple(merged))

"""The set of bytes that a strided view touches, in a normal form.

A view touches ``{start + sum_k i_k * stride_k : 0 <= i_k < count_k}``, where the bytes of one
element are one more dimension, of stride 1. Many strided descriptions give the same set; the
normal form removes the differences that do not matter (order, sign, size-1 and stride-0
dimensions, dimensions that continue or overlap one another), so that equal sets are usually
equal tuples and the questions asked of them are short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Layout(NamedTuple):
    """A set of bytes: ``start`` plus every sum of a multiple of each stride.

    Attributes
    ----------
    start : int
        Address of the first byte.
    stop : int
        One past the address of the last byte.
    dims : tuple of (stride, count)
        Strides in bytes, positive and ascending; every count is at least 2, except in the
        layout of one single byte, whose dims are ``((1, 1),)``.
    """

    start: int
    stop: int
    dims: tuple[tuple[int, int], ...]

    @property
    def is_run(self) -> bool:
        """Whether the bytes are one contiguous run."""
        return len(self.dims) == 1 and self.dims[0][0] == 1

    @property
    def is_nested(self) -> bool:
        """Whether every index gives its own byte: each stride clears all smaller ones."""
        reach = 1
        for stride, count in self.dims:
            if stride < reach:
                return False
            reach += stride * (count - 1)
        return True

    @property
    def n_points(self) -> int:
        """Number of index tuples: the number of bytes, if the layout is nested."""
        n = 1
        for _, count in self.dims:
            n *= count
        return n


def normalise(
    start: int, sizes: Sequence[int], strides: Sequence[int], itemsize: int
) -> Layout | None:
    """Normal form of the bytes of a strided view; ``None`` if it touches none.

    Parameters
    ----------
    start : int
        Address of the element with index 0.
    sizes : sequence of int
        Number of elements in each dimension.
    strides : sequence of int
        Step of each dimension in bytes, of any sign.
    itemsize : int
        Bytes of one element.

    Returns
    -------
    Layout or None
        The same set of bytes.

    Examples
    --------
    >>> normalise(0, (3, 4), (16, 4), 4)
    Layout(start=0, stop=48, dims=((1, 48),))
    """
    if itemsize == 0:
        return None
    dims = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 0:
            return None
        if size > 1 and stride:
            if stride < 0:
                start += stride * (size - 1)
                stride = -stride
            dims.append((stride, size))
    if len(dims) > 1:
        dims.sort()
    merged = []
    stride, count = 1, itemsize
    stop = start + itemsize
    for next_stride, next_count in dims:
        stop += next_stride * (next_count - 1)
        step, rest = divmod(next_stride, stride)
        # The windows of the outer dimension touch or overlap, on the grid of the inner one:
        # together they are one longer dimension.
        if rest == 0 and step <= count:
            count += step * (next_count - 1)
        else:
            if count > 1:
                merged.append((stride, count))
            stride, count = next_stride, next_count
    merged.append((stride, count))
    return Layout(start, stop, tuple(merged))

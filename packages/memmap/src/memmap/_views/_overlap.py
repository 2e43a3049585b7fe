"""Exact overlap tests: do two views share a byte, and does a view reach one byte twice?"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import torch

from ._address import view_of
from ._arrays import Array
from ._equation import Equation
from ._layout import Dims, Layout, normalise
from ._view import View


def overlaps(a: torch.Tensor | Array | View, b: torch.Tensor | Array | View) -> bool:
    """Whether two tensors share at least one byte of memory, exactly.

    The data are never read, so tensors may be on CUDA, meta or fake. Slices take a few
    microseconds. For adversarial strides the time is bounded by the number of bytes in which the
    two spans meet, and the answer stays exact.

    Takes the arguments and raises the errors of `footprint`.

    Examples
    --------
    >>> x = torch.zeros(10)
    >>> overlaps(x[::2], x[1::2]), overlaps(x[::2], x[::3])
    (False, True)
    """
    first, second = view_of(a), view_of(b)
    first_layout, second_layout = first.layout(), second.layout()
    if first_layout is None or second_layout is None or first.space != second.space:
        return False
    return layouts_overlap(first_layout, second_layout)


def has_internal_overlap(tensor: torch.Tensor | Array | View) -> bool:
    """Whether two elements of a tensor share a byte, as in expanded or unfolded tensors; exact.

    Takes the argument and raises the errors of `footprint`.

    Examples
    --------
    >>> x = torch.zeros(6)
    >>> has_internal_overlap(x.unfold(0, 3, 1)), has_internal_overlap(x.unfold(0, 3, 3))
    (True, False)
    """
    view = view_of(tensor)
    layout = view.layout()
    if layout is None:
        return False
    if prod(view.sizes) * view.itemsize > layout.stop - layout.start:
        return True
    dims = [(1, view.itemsize)] if view.itemsize > 1 else []
    dims += sorted((abs(s), n) for s, n in zip(view.strides, view.sizes, strict=True) if n > 1)
    inner = Layout(0, 1, ((1, 1),))
    for stride, count in dims:
        # Two indices that reach the same byte and differ in this dimension, but in no larger one:
        # the smaller dimensions at index 0 meet the smaller dimensions at another index.
        if stride < inner.stop:
            others = _extend(
                inner._replace(start=stride, stop=stride + inner.stop), stride, count - 1
            )
            if layouts_overlap(inner, others):
                return True
        inner = _extend(inner, stride, count)
    return False


def _extend(layout: Layout, stride: int, count: int) -> Layout:
    """The layout repeated `count` times. The dims stay sorted, because `stride` is the largest."""
    if count == 1:
        return layout
    dims = layout.dims if layout.dims[0][1] > 1 else ()
    return Layout(layout.start, layout.stop + stride * (count - 1), (*dims, (stride, count)))


def layouts_overlap(a: Layout, b: Layout) -> bool:
    """Whether two sets of bytes of one address space share a byte, exactly."""
    a_start, a_stop, a_dims = a
    b_start, b_stop, b_dims = b
    if a_stop <= b_start or b_stop <= a_start:
        return False
    if a_start == b_start or a_stop == b_stop:
        return True
    # start_a + sum s i = start_b + sum t j. With i' = count - 1 - i on one side every coefficient
    # is positive. Of the two sides, choose the one that gives the smaller right-hand side.
    target = min(b_stop - 1 - a_start, a_stop - 1 - b_start)
    return _equation_of(a_dims, b_dims).reaches(target, target)


# Programs ask for a few pairs of shapes again and again.
@lru_cache(maxsize=4096)
def _equation_of(a_dims: Dims, b_dims: Dims) -> Equation:
    """An equation for the distance of two layouts, solvable exactly if they share a byte."""
    # The sums of steps of both layouts are the bytes of another layout.
    strides, counts = zip(*a_dims, *b_dims, strict=True)
    sums = normalise(0, counts, strides, 1)
    assert sums is not None  # no dimension is empty
    return Equation([(stride, count - 1) for stride, count in sums.dims if count > 1])

"""Windows on a grid: every block of an array as a view, and blocks summed back into an array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._slices import clipped, is_empty
from ._tracing import is_recorded


def _has_own_gradient(x: Tensor) -> bool:
    """Whether autograd follows x, and should rather know that each is the other's adjoint.

    Its own way back is far slower, and slower still under vmap. The compiler's is not.
    """
    return is_recorded(x) and not torch.compiler.is_compiling()


class Windows(NamedTuple):
    """Equally spaced windows along one axis: element j of window i is ``offset + i stride + j``.

    Where that is not of an axis of a given size, which may be a part of a longer one, it is zero.
    """

    offset: int
    n_windows: int
    stride: int
    length: int

    @property
    def span(self) -> int:
        """Length from the start of the first window to the end of the last."""
        return (self.n_windows - 1) * self.stride + self.length

    def are_within(self, size: int) -> bool:
        """Whether all of them are on an axis of that size."""
        return self.offset >= 0 and self.offset + self.span <= size

    def touching(self, size: int) -> slice:
        """Return which windows have an element of the axis, from the first to the last."""
        first = -(self.offset + self.length) // self.stride + 1
        return clipped(first, -((self.offset - size) // self.stride), self.n_windows)

    def covered(self, size: int) -> slice:
        """Return which elements of the axis are in windows, from the first to the last."""
        start, last = self._first_and_last(size)
        return clipped(start, last + self.length, size)

    def used(self, size: int) -> slice:
        """Return which elements of a window are of the axis in any, from the first to the last."""
        start, last = self._first_and_last(size)
        return clipped(-last, size - start, self.length)

    def _first_and_last(self, size: int) -> tuple[int, int]:
        """Return where the first and the last window start that touch; behind the end if none."""
        which = self.touching(size)
        if is_empty(which):
            return size, -self.length
        return self.offset + which.start * self.stride, self.offset + (which.stop - 1) * self.stride

    def cut(
        self, which: slice | None = None, within: slice | None = None, of_axis: slice | None = None
    ) -> Windows:
        """Return some of the windows, a part of each of them, as a part of the axis sees them."""
        offset, count, stride, length = self
        if which is not None:
            offset, count = offset + which.start * stride, which.stop - which.start
        if within is not None:
            offset, length = offset + within.start, within.stop - within.start
        return Windows(offset - (of_axis.start if of_axis else 0), count, stride, length)


def unfolded(x: Tensor, windows: Sequence[Windows]) -> Tensor:
    """Return a view of ``x`` that holds every window along its last axes.

    Parameters
    ----------
    x : Tensor
        Shape (..., sizes of the grid).
    windows : sequence of Windows
        One per axis of the grid.

    Returns
    -------
    Tensor
        Shape (..., counts, lengths). It overlaps itself where windows do.
    """
    if not _has_own_gradient(x):
        return _unfold(x, windows)
    blocks: Tensor = _Unfold.apply(x, windows)  # type: ignore[no-untyped-call] # torch's own
    return blocks


def _unfold(x: Tensor, windows: Sequence[Windows]) -> Tensor:
    first = x.ndim - len(windows)
    for axis, (offset, count, stride, length) in enumerate(windows, first):
        if offset or (x.shape[axis] - length) // stride + 1 > count:
            x = x.narrow(axis, offset, (count - 1) * stride + length)
        x = x.unfold(axis, length, stride)
    return x


def folded(blocks: Tensor, windows: Sequence[Windows], grid: Sequence[int]) -> Tensor:
    """Return the sum of all windows at their places, the adjoint of :func:`unfolded`.

    Every m-th window, for m = ceil(length / stride), is disjoint from the others of its kind: the
    m kinds along each axis are added one after another, whole, in an order that never changes.

    Parameters
    ----------
    blocks : Tensor
        Shape (..., counts, lengths).
    grid : sequence of int
        Size of the array; zero where there is no window.

    Returns
    -------
    Tensor
        Shape (..., grid). It may be the first part of a slightly larger allocation, or a view of
        the blocks where these stand side by side.
    """
    if not _has_own_gradient(blocks):
        return _fold(blocks, windows, grid)
    x: Tensor = _Fold.apply(blocks, windows, grid)  # type: ignore[no-untyped-call] # torch's own
    return x


def _fold(blocks: Tensor, windows: Sequence[Windows], grid: Sequence[int]) -> Tensor:
    ndim = len(grid)
    batch = blocks.shape[: blocks.ndim - 2 * ndim]
    n_batch = len(batch)
    if all(_fills(axis, size) for axis, size in zip(windows, grid, strict=True)):
        pairs = (n_batch + axis + ndim * side for axis in range(ndim) for side in (0, 1))
        return blocks.permute(*range(n_batch), *pairs).reshape(*batch, *grid)
    kinds = [_disjoint_kinds(axis) for axis in windows]
    ends = [
        max([size, *(kind.offset + kind.n_windows * kind.stride for kind in of_axis)])
        for size, of_axis in zip(grid, kinds, strict=True)
    ]
    whole = blocks.new_zeros(*batch, *ends)
    for chosen in product(*(enumerate(of_axis) for of_axis in kinds)):
        places, part = whole, blocks
        for axis in reversed(range(ndim)):
            number, kind = chosen[axis]
            at = n_batch + axis
            cells = places.narrow(at, kind.offset, kind.n_windows * kind.stride)
            # Not unfold: what is written into such a view is lost when it is compiled.
            cells = cells.view(
                *cells.shape[:at], kind.n_windows, kind.stride, *cells.shape[at + 1 :]
            )
            places = cells.narrow(at + 1, 0, kind.length)
            every = slice(number, None, len(kinds[axis]))
            part = part[(slice(None),) * at + (every,)]
        counts = range(n_batch, places.ndim, 2)
        places = places.permute(*range(n_batch), *counts, *(at + 1 for at in counts))
        places.add_(part)
    for axis, size in enumerate(grid, n_batch):
        whole = whole.narrow(axis, 0, size)
    return whole


class _Unfold(torch.autograd.Function):
    """`_unfold`, with `_fold` as its gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, windows: Sequence[Windows]) -> Tensor:
        return _unfold(x, windows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.windows = inputs
        ctx.grid = tuple(x.shape[x.ndim - len(ctx.windows) :])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return folded(grad, ctx.windows, ctx.grid), None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, _: None) -> Tensor:
        return unfolded(change, ctx.windows)


class _Fold(torch.autograd.Function):
    """`_fold`, with `_unfold` as its gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(blocks: Tensor, windows: Sequence[Windows], grid: Sequence[int]) -> Tensor:
        return _fold(blocks, windows, grid)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.windows, ctx.grid = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return unfolded(grad, ctx.windows), None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        return folded(change, ctx.windows, ctx.grid)


def _fills(windows: Windows, size: int) -> bool:
    """Whether each element of an axis is in one window."""
    offset, count, stride, length = windows
    return offset == 0 and count * length == size and (stride == length or count == 1)


def _disjoint_kinds(windows: Windows) -> list[Windows]:
    """Return the windows along one axis as kinds that overlap only others: each m-th is one."""
    offset, count, stride, length = windows
    n_kinds = min(-(-length // stride), count)
    kinds = []
    for number in range(n_kinds):
        own = -(-(count - number) // n_kinds)
        step = n_kinds * stride if own > 1 else length
        kinds.append(Windows(offset + number * stride, own, step, length))
    return kinds


def flat_positions(axes: Sequence[Tensor], grid: Sequence[int]) -> Tensor:
    """Return the position in a flattened grid of each combination of positions along its axes."""
    flat, *others = axes
    for size, at in zip(grid[1:], others, strict=True):
        flat = flat.unsqueeze(-1) * size + at
    return flat


def coverage(windows: Windows, size: int, like: Tensor) -> Tensor:
    """Return in how many windows each element of an axis is; real, in the precision of ``like``."""
    offset, count, stride, length = windows
    at = torch.arange(size, device=like.device) - offset
    last = (at.div(stride, rounding_mode="floor")).clamp(max=count - 1)
    first = ((at - length).div(stride, rounding_mode="floor") + 1).clamp(min=0)
    return (last - first + 1).clamp(min=0).to(like.real.dtype)

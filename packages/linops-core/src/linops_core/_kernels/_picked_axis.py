"""Axes that are sliced with a step, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._slices import clipped_slice, is_empty

_NOTHING = slice(0, 0)


class PickedAxis(NamedTuple):
    r"""One axis of :math:`y_j = x_{f + s j}`, which is zero if f + s j is not an index.

    Input and output may be any parts of a grid: f has any sign and size.
    """

    n_input: int
    n_output: int
    first: int
    """The element f."""
    step: int = 1
    """The step s, not zero."""

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def supports(self) -> tuple[slice, slice]:
        """The slice of the input that is read, and the slice of outputs that read any of it.

        Both are empty if nothing is picked.
        """
        n_input, n_output, first, step = self
        if step > 0:
            written = clipped_slice(-(first // step), -((first - n_input) // step), n_output)
        else:
            written = clipped_slice((first - n_input) // -step + 1, first // -step + 1, n_output)
        if is_empty(written):
            return _NOTHING, _NOTHING
        ends = first + step * written.start, first + step * (written.stop - 1)
        return slice(min(ends), max(ends) + 1), written

    @property
    def moves(self) -> bool:
        """Whether an element gets another index, or is not in the output."""
        return self != (self.n_output, self.n_output, 0, 1)

    @property
    def keeps_all(self) -> bool:
        """Whether each input is picked."""
        read, written = self.supports
        return bool(read.stop - read.start == written.stop - written.start == self.n_input)

    @property
    def reverse_keeps_all(self) -> bool:
        """Whether each output picks an input."""
        written = self.supports[1]
        return bool(written.stop - written.start == self.n_output)

    def cut(self, of_input: slice | None, of_output: slice | None) -> PickedAxis:
        """Return the axis between a slice of the input and a slice of the output."""
        n_input, n_output, first, step = self
        if of_input is not None:
            n_input, first = of_input.stop - of_input.start, first - of_input.start
        if of_output is not None:
            n_output, first = of_output.stop - of_output.start, first + step * of_output.start
        return PickedAxis(n_input, n_output, first, step)


def picked(x: Tensor, axes: Sequence[PickedAxis]) -> Tensor:
    """Return the picked elements along the last axes of x.

    It is a view if no step is negative and every output picks an element.
    """
    reads, writes = _reads_and_writes(axes)
    return _moved(x, reads, writes, [axis.n_output for axis in axes], axes)


def put_back(y: Tensor, axes: Sequence[PickedAxis]) -> Tensor:
    """Return the adjoint of `picked`: elements at the indices that they are picked from, and zeros.

    It is a view if no step is negative and there are no other indices.
    """
    reads, writes = _reads_and_writes(axes)
    return _moved(y, writes, reads, [axis.n_input for axis in axes], axes)


def _reads_and_writes(axes: Sequence[PickedAxis]) -> tuple[list[slice], list[slice]]:
    """Return the picked slices, starting at the lowest element, and the output slices."""
    supports = [axis.supports for axis in axes]
    pairs = zip(supports, axes, strict=True)
    reads = [slice(read.start, read.stop, abs(axis.step)) for (read, _), axis in pairs]
    return reads, [written for _, written in supports]


def _moved(
    x: Tensor,
    reads: list[slice],
    writes: list[slice],
    lengths: list[int],
    axes: Sequence[PickedAxis],
) -> Tensor:
    """Return the part ``reads`` of x, at the indices ``writes`` of a tensor of zeros."""
    source: Any = (..., *reads)
    pairs = zip(reads, x.shape[x.ndim - len(axes) :], strict=True)
    is_whole = all([(read.start, read.stop, read.step) == (0, n, 1) for read, n in pairs])
    part: Tensor = x if is_whole else x[source]  # a batch of gradients has no slices of all
    if mirrored := [number for number, axis in enumerate(axes, -len(axes)) if axis.step < 0]:
        part = part.flip(mirrored)
    batch = part.shape[: part.ndim - len(axes)]
    if part.shape[len(batch) :] == tuple(lengths):
        return part
    if all([piece.step in (None, 1) for piece in writes]):
        ends = zip(writes[::-1], lengths[::-1], strict=True)  # the last axis comes first
        return torch.constant_pad_nd(part, [n for p, m in ends for n in (p.start, m - p.stop)])
    whole = part.new_zeros(*batch, *lengths)
    target: Any = (..., *writes)
    whole[target] = part
    return whole

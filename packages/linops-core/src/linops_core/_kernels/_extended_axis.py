"""Axes of a correlation whose input is extended beyond its ends by zeros or by its elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ._halo import Axis
from ._slices import clipped_slice, hull

Extension: TypeAlias = Literal["zeros", "circular", "reflect", "replicate"]


class SourceRange(NamedTuple):
    """A range of the extended axis whose elements are elements of the input."""

    start: int
    """Index of the first one in the extended axis."""
    length: int
    source: int
    """Index of the first one in the input."""
    step: int
    """Step in the input: 1, -1 if mirrored, 0 if replicated."""

    @property
    def sources(self) -> slice:
        """The elements of the input in the range."""
        far = self.source + self.step * (self.length - 1)
        return slice(min(self.source, far), max(self.source, far) + 1)


class Stretch(NamedTuple):
    """Ranges of an extended axis that follow each other, and the correlation with their elements.

    The elements are taken from an input, extended beyond the ends of its grid.
    """

    ranges: Sequence[SourceRange]
    straight: Axis
    """The axis from the elements to the output."""
    n_input: int

    @property
    def is_whole(self) -> bool:
        """Whether the elements are the input as it is."""
        return self.ranges == [(0, self.n_input, 0, 1)]

    def taken(self, x: Tensor, axis: int) -> Tensor:
        """Return the elements along an axis of x."""
        if self.is_whole:
            return x
        parts = []
        for run in self.ranges:
            part = x.narrow(axis, run.sources.start, run.sources.stop - run.sources.start)
            if run.step == 0:
                part = part.expand(with_length(x, axis, run.length))
            parts.append(part.flip(axis) if run.step == -1 else part)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=axis)

    def put_back(self, y: Tensor, axis: int) -> Tensor:
        """Return the adjoint of :meth:`taken`: the sums over all copies of an element."""
        if self.is_whole:
            return y
        x = y.new_zeros(with_length(y, axis, self.n_input))
        for run in self.ranges:
            part = y.narrow(axis, run.start - self.ranges[0].start, run.length)
            if run.step == 0:
                part = part.sum(axis, keepdim=True)
            elif run.step == -1:
                part = part.flip(axis)
            sources = run.sources
            x.narrow(axis, sources.start, sources.stop - sources.start).add_(part)
        return x


def with_length(x: Tensor, axis: int, length: int) -> list[int]:
    """Return the shape of x with another length along an axis."""
    lengths = list(x.shape)
    lengths[axis] = length
    return lengths


class ExtendedAxis(NamedTuple):
    r"""One axis of a correlation :math:`y_p = \sum_j w_j \tilde x_{p + j - b}`.

    :math:`\tilde x` is the input, extended beyond the ends of its grid. Input and output may be
    parts of the grid. The shift b is between their first elements, as in :class:`Axis`.
    """

    n_input: int
    n_output: int
    taps: int
    before: int
    """The shift b."""
    size: int
    """Length of the grid."""
    mode: Extension
    """The values beyond the ends of a grid a b c: "zeros" is 0 0 [a b c] 0 0, "circular" is
    b c [a b c] a b, "reflect" is c b [a b c] b a, "replicate" is a a [a b c] c c."""
    start: int = 0
    """Start of the input in the grid."""

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def runs(self) -> list[SourceRange]:
        """The ranges of the extended axis in order; it is zero between them."""
        first, result = self.start - self.before, []
        stop = first + self.n_output + self.taps - 1
        least, most = self.start, self.start + self.n_input - 1
        for begin, end, source, step in _pieces(first, stop, self.size, self.mode):
            low, high = max(begin, first), min(end, stop)
            if step:  # where the first and the last element of the input are
                ends = begin + step * (least - source), begin + step * (most - source)
                low, high = max(low, min(ends)), min(high, max(ends) + 1)
            elif not least <= source <= most:
                continue
            if low < high:
                at = source + step * (low - begin) - self.start
                result.append(SourceRange(low - first, high - low, at, step))
        return result

    @property
    def is_ring(self) -> bool:
        """Whether input and output are a whole period."""
        return self.mode == "circular" and self.n_input == self.n_output == self.size

    @property
    def stretches(self) -> list[Stretch]:
        """The ranges without zeros between them, whose correlations are added up."""
        groups: list[list[SourceRange]] = []
        for run in self.runs:
            if not groups or groups[-1][-1].start + groups[-1][-1].length < run.start:
                groups.append([])
            groups[-1].append(run)
        return [
            Stretch(
                ranges,
                Axis(sum(r.length for r in ranges), self.n_output, self.taps, ranges[0].start),
                self.n_input,
            )
            for ranges in groups
        ]

    @property
    def supports(self) -> tuple[slice, slice]:
        """The slice of the input that is read, and the slice of outputs that read any of it.

        Both are empty if nothing overlaps.
        """
        runs, last = self.runs, self.taps - 1
        written = [
            clipped_slice(run.start - last, run.start + run.length, self.n_output) for run in runs
        ]
        return hull(run.sources for run in runs), hull(written)

    def with_kernel(self, taps: int, centre: int) -> ExtendedAxis:
        """Return this one-tap axis with ``taps`` taps, the original one at ``centre``."""
        before = self.before + taps - 1 - centre
        axis = self.size, self.mode, self.start
        return ExtendedAxis(self.n_input, self.n_output, taps, before, *axis)

    def cut(self, of_input: slice | None, of_output: slice | None) -> ExtendedAxis:
        """Return the axis between a slice of the input and a slice of the output."""
        n_input, n_output, taps, before, size, mode, start = self
        if of_input is not None:
            n_input = of_input.stop - of_input.start
            before, start = before + of_input.start, start + of_input.start
        if of_output is not None:
            n_output, before = of_output.stop - of_output.start, before - of_output.start
        return ExtendedAxis(n_input, n_output, taps, before, size, mode, start)


def _pieces(
    first: int, stop: int, size: int, mode: Extension
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, stop, source, step) of the pieces of the extended grid."""
    if mode == "zeros":
        yield 0, size, 0, 1
    if mode == "zeros" or not size:
        return
    if mode == "replicate" or (mode == "reflect" and size == 1):
        yield min(first, 0), 0, 0, 0
        yield 0, size, 0, 1
        yield size, max(stop, size), size - 1, 0
    elif mode == "circular":
        for begin in range(first // size * size, stop, size):
            yield begin, begin + size, 0, 1
    else:
        period = 2 * (size - 1)
        for begin in range(first // period * period, stop, period):
            yield begin, begin + size, 0, 1
            yield begin + size, begin + period, size - 2, -1

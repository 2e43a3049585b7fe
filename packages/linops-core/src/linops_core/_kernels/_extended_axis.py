"""Axes of a correlation whose input is extended beyond its ends: mirrored or replicated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ._halo import Axis
from ._slices import clipped_slice, hull

Extension: TypeAlias = Literal["reflect", "replicate"]


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

    def within(self, first: int, last: int) -> SourceRange | None:
        """Return the part with sources from ``first`` to below ``last``, or None."""
        start, length, source, step = self
        if step == 0:
            low, high = (0, length) if first <= source < last else (0, 0)
        elif step == 1:
            low, high = first - source, last - source
        else:
            low, high = source - last + 1, source - first + 1
        low, high = max(low, 0), min(high, length)
        return (
            SourceRange(start + low, high - low, source + step * low, step) if low < high else None
        )


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
    """The extension: "reflect" is c b [a b c] b a, "replicate" is a a [a b c] c c."""
    start: int = 0
    """Start of the input in the grid."""

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def runs(self) -> list[SourceRange]:
        """The ranges of the extended axis in order; it is zero between them."""
        first = self.start - self.before
        stop = first + self.n_output + self.taps - 1
        found = []
        for begin, end, source, step in _pieces(first, stop, self.size, self.mode):
            low, high = max(begin, first), min(end, stop)
            run = SourceRange(low - first, high - low, source + step * (low - begin), step)
            inside = run.within(self.start, self.start + self.n_input) if low < high else None
            if inside is not None:
                found.append(inside._replace(source=inside.source - self.start))
        return found

    @property
    def straight(self) -> Axis:
        """The axis of the correlation of the extended input; see `extended`."""
        reach = _reach(self.runs)
        return Axis(reach.stop - reach.start, self.n_output, self.taps, reach.start)

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
        own = self.size, self.mode, self.start
        return ExtendedAxis(self.n_input, self.n_output, taps, before, *own)

    def cut(self, of_input: slice | None, of_output: slice | None) -> ExtendedAxis:
        """Return the axis between a slice of the input and a slice of the output."""
        n_input, n_output, taps, before, size, mode, start = self
        if of_input is not None:
            n_input = of_input.stop - of_input.start
            before, start = before + of_input.start, start + of_input.start
        if of_output is not None:
            n_output, before = of_output.stop - of_output.start, before - of_output.start
        return ExtendedAxis(n_input, n_output, taps, before, size, mode, start)


def extended(x: Tensor, axes: Sequence[ExtendedAxis]) -> Tensor:
    """Return x extended along its last axes as far as the outputs read it."""
    for number, axis in enumerate(axes, x.ndim - len(axes)):
        runs = axis.runs
        if not runs:
            return x.narrow(number, 0, 0)
        at, parts = runs[0].start, []
        for run in runs:
            if run.start > at:
                parts.append(x.new_zeros(_with_length(x, number, run.start - at)))
            part = x.narrow(number, run.sources.start, run.sources.stop - run.sources.start)
            if run.step == 0:
                part = part.expand(_with_length(x, number, run.length))
            parts.append(part.flip(number) if run.step == -1 else part)
            at = run.start + run.length
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=number)
    return x


def extension_adjoint(y: Tensor, axes: Sequence[ExtendedAxis]) -> Tensor:
    """Return the adjoint of `extended`: the sums over all copies of an element."""
    for number, axis in enumerate(axes, y.ndim - len(axes)):
        runs = axis.runs
        first = _reach(runs).start
        x = y.new_zeros(_with_length(y, number, axis.n_input))
        for run in runs:
            part = y.narrow(number, run.start - first, run.length)
            if run.step == 0:
                part = part.sum(number, keepdim=True)
            elif run.step == -1:
                part = part.flip(number)
            sources = run.sources
            x.narrow(number, sources.start, sources.stop - sources.start).add_(part)
        y = x
    return y


def _pieces(
    first: int, stop: int, size: int, mode: Extension
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, stop, source, step) of the pieces of the extended grid."""
    if size == 1 or mode == "replicate":
        yield min(first, 0), 0, 0, 0
        yield 0, size, 0, 1
        yield size, max(stop, size), size - 1, 0
    elif size:
        period = 2 * (size - 1)
        for begin in range(first // period * period, stop, period):
            yield begin, begin + size, 0, 1
            yield begin + size, begin + period, size - 2, -1


def _reach(runs: Sequence[SourceRange]) -> slice:
    return hull(slice(run.start, run.start + run.length) for run in runs)


def _with_length(x: Tensor, axis: int, length: int) -> list[int]:
    lengths = list(x.shape)
    lengths[axis] = length
    return lengths

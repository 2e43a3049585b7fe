"""Axes of a correlation whose grid goes on beyond its ends: in a mirror, or with its end values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ._halo import Axis
from ._slices import clipped, hull

Extension: TypeAlias = Literal["reflect", "replicate"]


class Run(NamedTuple):
    """Elements of the extended axis, one after another, that are elements of the input."""

    start: int
    """The first of them in the extended axis."""
    length: int
    source: int
    """The element of the input that the first of them is."""
    step: int
    """From an element of the input to the next: 1, -1 in a mirror, 0 for one again and again."""

    @property
    def sources(self) -> slice:
        """The elements of the input that are there."""
        far = self.source + self.step * (self.length - 1)
        return slice(min(self.source, far), max(self.source, far) + 1)

    def within(self, first: int, last: int) -> Run | None:
        """Return the part whose sources lie from ``first`` to below ``last``, if there is any."""
        start, length, source, step = self
        if step == 0:
            low, high = (0, length) if first <= source < last else (0, 0)
        elif step == 1:
            low, high = first - source, last - source
        else:
            low, high = source - last + 1, source - first + 1
        low, high = max(low, 0), min(high, length)
        return Run(start + low, high - low, source + step * low, step) if low < high else None


class ExtendedAxis(NamedTuple):
    r"""One axis of a correlation :math:`y_p = \sum_j w_j \tilde x_{p + j - b}`.

    :math:`\tilde x` is the input, which goes on beyond the ends of its grid. Input and output may
    be parts of the grid: the shift b is between their first elements, as in :class:`Axis`.
    """

    n_input: int
    n_output: int
    taps: int
    before: int
    """The shift b."""
    size: int
    """Length of the grid."""
    mode: Extension
    """What is beyond: "reflect" c b [a b c] b a, "replicate" a a [a b c] c c."""
    start: int = 0
    """Where in the grid the input begins."""

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def runs(self) -> list[Run]:
        """What is where along the extended axis, from its start to its end; zero in between."""
        first = self.start - self.before
        stop = first + self.n_output + self.taps - 1
        found = []
        for begin, end, source, step in _pieces(first, stop, self.size, self.mode):
            low, high = max(begin, first), min(end, stop)
            run = Run(low - first, high - low, source + step * (low - begin), step)
            inside = run.within(self.start, self.start + self.n_input) if low < high else None
            if inside is not None:
                found.append(inside._replace(source=inside.source - self.start))
        return found

    @property
    def straight(self) -> Axis:
        """The axis of the correlation once the input is extended; see `extended`."""
        reach = _reach(self.runs)
        return Axis(reach.stop - reach.start, self.n_output, self.taps, reach.start)

    @property
    def supports(self) -> tuple[slice, slice]:
        """What outputs read of the input, and which outputs read any; from the first to the last.

        Both are empty where nothing touches.
        """
        runs, last = self.runs, self.taps - 1
        written = [clipped(run.start - last, run.start + run.length, self.n_output) for run in runs]
        return hull(run.sources for run in runs), hull(written)

    def with_kernel(self, taps: int, centre: int) -> ExtendedAxis:
        """Return this axis, of one tap, with so many taps, of which the one at ``centre`` is it."""
        before = self.before + taps - 1 - centre
        own = self.size, self.mode, self.start
        return ExtendedAxis(self.n_input, self.n_output, taps, before, *own)

    def cut(self, of_input: slice | None, of_output: slice | None) -> ExtendedAxis:
        """Return what is between a slice of the input and a slice of the output."""
        n_input, n_output, taps, before, size, mode, start = self
        if of_input is not None:
            n_input = of_input.stop - of_input.start
            before, start = before + of_input.start, start + of_input.start
        if of_output is not None:
            n_output, before = of_output.stop - of_output.start, before - of_output.start
        return ExtendedAxis(n_input, n_output, taps, before, size, mode, start)


def extended(x: Tensor, axes: Sequence[ExtendedAxis]) -> Tensor:
    """Return x, whose last axes these are, as far as the outputs read it beyond its ends."""
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


def folded(y: Tensor, axes: Sequence[ExtendedAxis]) -> Tensor:
    """Return the adjoint of `extended`: the sums of all that one element of the input became."""
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
    """Yield (start, stop, source, step) of the pieces of which the extended grid is made."""
    if size == 1 or mode == "replicate":
        yield min(first, 0), 0, 0, 0
        yield 0, size, 0, 1
        yield size, max(stop, size), size - 1, 0
    elif size:
        period = 2 * (size - 1)
        for begin in range(first // period * period, stop, period):
            yield begin, begin + size, 0, 1
            yield begin + size, begin + period, size - 2, -1


def _reach(runs: Sequence[Run]) -> slice:
    return hull(slice(run.start, run.start + run.length) for run in runs)


def _with_length(x: Tensor, axis: int, length: int) -> list[int]:
    lengths = list(x.shape)
    lengths[axis] = length
    return lengths

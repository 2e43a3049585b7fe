"""Halos: which inputs which outputs of a correlation touch, where both are parts of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, TypeAlias

from torch.compiler import is_dynamo_compiling

from ._slices import clipped, hull


class Axis(NamedTuple):
    r"""One axis of a correlation :math:`y_p = \sum_j w_j x_{p + j - b}`.

    Input and output may be parts of a grid that lie anywhere: the shift b has any sign and size.
    """

    n_input: int
    n_output: int
    taps: int
    before: int
    """The shift b."""
    period: int | None = None
    """After how many elements the input comes again, with zeros in between; None if never."""

    @property
    def is_ring(self) -> bool:
        """Whether input and output are a whole period."""
        return self.n_input == self.n_output == self.period

    @property
    def reverse(self) -> Axis:
        """The way back, with the flipped kernel."""
        before = self.taps - 1 - self.before
        return Axis(self.n_output, self.n_input, self.taps, before, self.period)

    @property
    def images(self) -> list[int]:
        """The shifts of those repetitions of the input that an output reads."""
        first, last = -(self.before + self.n_input), self.n_output + self.taps - 1 - self.before
        if self.period is None:
            return [self.before] if first < 0 < last else []
        rounds = range(first // self.period + 1, -(-last // self.period))
        return [self.before + k * self.period for k in rounds]

    @property
    def read(self) -> slice:
        """The inputs that outputs read, from the first to the last; empty if there are none."""
        ends = self.n_output - 1 + self.taps
        return hull(clipped(-shift, ends - shift, self.n_input) for shift in self.images)

    @property
    def written(self) -> slice:
        """The outputs that read an input, from the first to the last; empty if there are none."""
        return hull(
            clipped(shift - self.taps + 1, shift + self.n_input, self.n_output)
            for shift in self.images
        )


Piece: TypeAlias = tuple[int, int, int]
"""(axis from the end, start, length)."""


class Term(NamedTuple):
    """What one repetition of the input adds to the output."""

    reads: tuple[Piece, ...]
    """What is read of it, where that is not all."""
    axes: tuple[Axis, ...]
    """Between what is read and what is written: every shift is at least 0 and below the taps."""
    margins: tuple[int, ...]
    """Zeros around, as :func:`torch.constant_pad_nd` takes them; none where all is written."""


class Plan(NamedTuple):
    """A correlation as a sum of some between what touches, with zeros outside."""

    rounds: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    """(axis from the end, pieces one after the other) of what is read around a ring."""
    terms: tuple[Term, ...]
    """None where nothing touches."""
    is_ring: bool
    """Whether input and output are whole periods along all axes."""


def halo_plan(axes: tuple[Axis, ...]) -> Plan:
    """Return how a correlation is computed from what touches alone."""
    if is_dynamo_compiling():  # which has no word for a cache, and asks once
        return _plan(axes)
    try:
        return _kept_plan(axes)
    except TypeError:  # the sizes of a trace are symbols, which have no hash
        return _plan(axes)


def _plan(axes: tuple[Axis, ...]) -> Plan:
    rounds, straight = [], []
    for number, axis in enumerate(axes, -len(axes)):
        if axis.n_input == axis.period:
            reach = axis.n_output + axis.taps - 1
            rounds.append((number, _around(-axis.before, reach, axis.period)))
            straight.append(Axis(reach, axis.n_output, axis.taps, 0))
        else:
            straight.append(axis)
    terms = [
        _term([axis._replace(before=b, period=None) for axis, b in zip(straight, at, strict=True)])
        for at in product(*[axis.images for axis in straight])
    ]
    return Plan(tuple(rounds), tuple(terms), all([axis.is_ring for axis in axes]))


_kept_plan = lru_cache(256)(_plan)


def _around(start: int, length: int, period: int) -> tuple[tuple[int, int], ...]:
    """Return the pieces (start, length) of a period that make up one of what goes on."""
    pieces = []
    while length:
        at = start % period
        pieces.append((at, min(period - at, length)))
        start, length = start + pieces[-1][1], length - pieces[-1][1]
    return tuple(pieces)


def _term(axes: Sequence[Axis]) -> Term:
    reads, inside = [], []
    margins: list[int] = []
    for number, axis in enumerate(axes, -len(axes)):
        read, written = axis.read, axis.written
        n_read, n_written = read.stop - read.start, written.stop - written.start
        if n_read < axis.n_input:
            reads.append((number, read.start, n_read))
        shift = axis.before + read.start - written.start
        inside.append(Axis(n_read, n_written, axis.taps, shift))
        margins[:0] = [written.start, axis.n_output - written.stop]
    return Term(tuple(reads), tuple(inside), tuple(margins) if any(margins) else ())

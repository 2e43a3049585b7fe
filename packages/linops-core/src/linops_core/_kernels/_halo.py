"""Axes of a correlation between parts of a grid, and their halos."""

from __future__ import annotations

from typing import NamedTuple

from ._slices import clipped_slice, hull, is_empty


class Axis(NamedTuple):
    r"""One axis of a correlation :math:`y_p = \sum_j w_j x_{p + j - b}`.

    Input and output may be any parts of a grid: the shift b has any sign and size. With one tap,
    element i of the input is element i + b of the output.
    """

    n_input: int
    n_output: int
    taps: int
    before: int
    """The shift b."""
    period: int | None = None
    """Period of the input, with zeros in between; None if it is not periodic."""

    @property
    def is_ring(self) -> bool:
        """Whether input and output are a whole period."""
        return self.n_input == self.n_output == self.period

    @property
    def reverse(self) -> Axis:
        """The axis of the adjoint, with the flipped kernel."""
        before = self.taps - 1 - self.before
        return Axis(self.n_output, self.n_input, self.taps, before, self.period)

    @property
    def images(self) -> list[int]:
        """The shifts of the periods of the input that outputs read."""
        first, last = -(self.before + self.n_input), self.n_output + self.taps - 1 - self.before
        if self.period is None:
            return [self.before] if first < 0 < last else []
        rounds = range(first // self.period + 1, -(-last // self.period))
        return [self.before + k * self.period for k in rounds]

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def supports(self) -> tuple[slice, slice]:
        """The slice of the input that is read, and the slice of outputs that read any of it.

        Both are empty if nothing overlaps.
        """
        n_input, n_output, taps, before, period = self
        if period is not None:
            each = [Axis(n_input, n_output, taps, shift).supports for shift in self.images]
            return hull(read for read, _ in each), hull(written for _, written in each)
        read = clipped_slice(-before, n_output - 1 + taps - before, n_input)
        written = clipped_slice(before - taps + 1, before + n_input, n_output)
        nothing = slice(0, 0)
        return (nothing, nothing) if is_empty(read) else (read, written)

    @property
    def touches_all(self) -> bool:
        """Whether all inputs and outputs overlap, once each."""
        ends = self.before, self.before + self.n_input - self.n_output
        return self.period is None and 0 <= min(ends) and max(ends) < self.taps

    def with_kernel(self, taps: int, centre: int) -> Axis:
        """Return this one-tap axis with ``taps`` taps, the original one at ``centre``."""
        before = self.before + taps - 1 - centre
        return Axis(self.n_input, self.n_output, taps, before, self.period)

    def cut(self, of_input: slice | None, of_output: slice | None) -> Axis:
        """Return the axis between a slice of the input and a slice of the output."""
        n_input, n_output, taps, before, period = self
        if of_input is not None:
            n_input, before = of_input.stop - of_input.start, before + of_input.start
        if of_output is not None:
            n_output, before = of_output.stop - of_output.start, before - of_output.start
        return Axis(n_input, n_output, taps, before, period)

"""Axes of a correlation between parts of a grid, and their halos."""

from __future__ import annotations

from typing import NamedTuple

from ._slices import clipped_slice, is_empty


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

    @property
    def reverse(self) -> Axis:
        """The axis of the adjoint, with the flipped kernel."""
        return Axis(self.n_output, self.n_input, self.taps, self.taps - 1 - self.before)

    @property
    def supports(self) -> tuple[slice, slice]:
        """The slice of the input that is read, and the slice of outputs that read any of it.

        Both are empty if nothing overlaps.
        """
        n_input, n_output, taps, before = self
        read = clipped_slice(-before, n_output - 1 + taps - before, n_input)
        written = clipped_slice(before - taps + 1, before + n_input, n_output)
        nothing = slice(0, 0)
        return (nothing, nothing) if is_empty(read) else (read, written)

    def of_tap(self, tap: int) -> Axis:
        """Return the axis of one tap alone."""
        return Axis(self.n_input, self.n_output, 1, self.before - tap)

    def cut(self, of_input: slice | None, of_output: slice | None) -> Axis:
        """Return the axis between a slice of the input and a slice of the output."""
        n_input, n_output, taps, before = self
        if of_input is not None:
            n_input, before = of_input.stop - of_input.start, before + of_input.start
        if of_output is not None:
            n_output, before = of_output.stop - of_output.start, before - of_output.start
        return Axis(n_input, n_output, taps, before)

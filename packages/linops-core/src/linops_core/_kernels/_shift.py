"""Axes cut and filled up with zeros, so that their elements move by an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ._slices import clipped


class Shift(NamedTuple):
    """How the elements of one axis move: index i of the input is i + offset of the output."""

    axis: int
    """Of input and output alike; behind a ``...`` counted from the end."""
    n_input: int
    n_output: int
    offset: int

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of the input and of the output."""
        return self.n_input, self.n_output

    @property
    def supports(self) -> tuple[slice, slice]:
        """What of the input has a place in the output, and what of the output is filled from it."""
        return (
            clipped(-self.offset, self.n_output - self.offset, self.n_input),
            clipped(self.offset, self.offset + self.n_input, self.n_output),
        )

    @property
    def keeps_all(self) -> bool:
        """Whether every element of the input has a place in the output."""
        return self.offset >= 0 and self.offset + self.n_input <= self.n_output

    @property
    def moves_nothing(self) -> bool:
        """Whether input and output are the same."""
        return self.offset == 0 and self.n_input == self.n_output

    @property
    def reverse(self) -> Shift:
        """The way back."""
        return Shift(self.axis, self.n_output, self.n_input, -self.offset)

    def cut(self, of_input: slice | None, of_output: slice | None) -> Shift:
        """Return what is between a slice of the input and a slice of the output."""
        first, end = (0, self.n_input) if of_input is None else (of_input.start, of_input.stop)
        begin, last = (0, self.n_output) if of_output is None else (of_output.start, of_output.stop)
        return Shift(self.axis, end - first, last - begin, self.offset + first - begin)


def moved(x: Tensor, shifts: Sequence[Shift]) -> Tensor:
    """Return ``x`` with its axes moved: a view where there is nothing to fill up."""
    padding = [0] * (2 * x.ndim)
    for axis, n_input, n_output, offset in shifts:
        if x.shape[axis] != n_input:
            raise ValueError(
                f"the size along axis {axis} must be {n_input}, got {x.shape[axis]} in an input of "
                f"shape {tuple(x.shape)}"
            )
        start, stop = max(0, -offset), min(n_input, n_output - offset)
        if start >= stop:
            start = stop = offset = 0
        if stop - start < n_input:
            x = x.narrow(axis, start, stop - start)
        last = 2 * ((-1 - axis) % x.ndim)  # zeros of the last axis come first
        before = max(offset, 0)
        padding[last : last + 2] = before, n_output - before - (stop - start)
    return torch.constant_pad_nd(x, padding) if any(padding) else x


def masked(x: Tensor, shifts: Sequence[Shift]) -> Tensor:
    """Return ``x`` with zeros in the place of all elements that ``shifts`` leave out."""
    kept = [(shift.axis, shift.n_input, shift.supports[0]) for shift in shifts]
    cut = [Shift(axis, n, piece.stop - piece.start, -piece.start) for axis, n, piece in kept]
    return moved(moved(x, cut), [shift.reverse for shift in cut])

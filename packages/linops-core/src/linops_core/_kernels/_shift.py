"""How the elements of axes move: the steps that cut, and those that fill with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Shift(NamedTuple):
    """How the elements of one axis move: index i of the input is i + offset of the output."""

    axis: int
    """Of input and output alike; behind a ``...`` counted from the end."""
    n_input: int
    n_output: int
    offset: int

    @property
    def start(self) -> int:
        """First index of the input that has a place in the output."""
        return max(0, -self.offset)

    @property
    def stop(self) -> int:
        """One past the last such index; not above ``start`` where nothing has a place."""
        return min(self.n_input, self.n_output - self.offset)

    @property
    def keeps_all(self) -> bool:
        """Whether every element of the input has a place in the output."""
        return self.start == 0 and self.stop == self.n_input

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


class Steps(NamedTuple):
    """What is done to a tensor: its axes are cut, then filled up with zeros."""

    n_input: tuple[tuple[int, int], ...]
    """(axis, length) that the tensor must have."""
    n_output: tuple[tuple[int, int], ...]
    """(axis, length) that it has then."""
    cuts: tuple[tuple[int, int, int], ...]
    """(axis, start, length) of what is kept, where that is not all."""
    pads: tuple[tuple[int, int, int], ...]
    """(axis, zeros before, zeros behind), where there are any."""
    trailing: tuple[int, ...] | None
    """The same as :func:`torch.constant_pad_nd` takes it, where all axes count from the end."""
    is_zero: bool
    """Whether nothing is kept."""

    def applied(self, x: Tensor) -> Tensor:
        """Return the result: a view where there is nothing to fill up."""
        if self.is_zero:
            lengths = list(x.shape)
            for axis, length in self.n_output:
                lengths[axis] = length
            return x.new_zeros(lengths)
        for axis, start, length in self.cuts:
            x = x.narrow(axis, start, length)
        if not self.pads:
            return x
        trailing = _trailing(self.pads, x.ndim) if self.trailing is None else self.trailing
        return torch.constant_pad_nd(x, trailing)


def steps(shifts: Sequence[Shift]) -> Steps:
    """Return what moves each axis as its shift says."""
    pads = [(s.axis, max(s.offset, 0), max(s.n_output - s.n_input - s.offset, 0)) for s in shifts]
    return _steps(shifts, [(s.axis, s.n_output) for s in shifts], pads)


def masking_steps(shifts: Sequence[Shift]) -> Steps:
    """Return what puts zeros in the place of all elements that ``shifts`` leave out."""
    pads = [(s.axis, s.start, s.n_input - s.stop) for s in shifts]
    return _steps(shifts, [(s.axis, s.n_input) for s in shifts], pads)


def _steps(
    shifts: Sequence[Shift],
    n_output: Sequence[tuple[int, int]],
    pads: Sequence[tuple[int, int, int]],
) -> Steps:
    filled = tuple(pad for pad in pads if pad[1:] != (0, 0))
    from_the_end = all(axis < 0 for axis, _, _ in filled)
    return Steps(
        n_input=tuple((shift.axis, shift.n_input) for shift in shifts),
        n_output=tuple(n_output),
        cuts=tuple(
            (shift.axis, shift.start, shift.stop - shift.start)
            for shift in shifts
            if not shift.keeps_all
        ),
        pads=filled,
        trailing=_trailing(filled, 0) if from_the_end else None,
        is_zero=any(shift.start >= shift.stop for shift in shifts),
    )


def _trailing(pads: Sequence[tuple[int, int, int]], ndim: int) -> tuple[int, ...]:
    """Return the zeros before and behind of each axis, the last axis first."""
    of_axis = {axis if axis < 0 else axis - ndim: zeros for axis, *zeros in pads}
    first = min(of_axis, default=0)
    return tuple(n for axis in range(-1, first - 1, -1) for n in of_axis.get(axis, (0, 0)))

"""Axes that are sliced with a step, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import NamedTuple

from torch import Tensor

from ._slices import clipped, is_empty

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
            written = clipped(-(first // step), -((first - n_input) // step), n_output)
        else:
            written = clipped((first - n_input) // -step + 1, first // -step + 1, n_output)
        if is_empty(written):
            return _NOTHING, _NOTHING
        ends = first + step * written.start, first + step * (written.stop - 1)
        return slice(min(ends), max(ends) + 1), written

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
    part = _backwards(x[_at(_sources(axes))], axes)
    return _placed(part, [axis.n_output for axis in axes], [axis.supports[1] for axis in axes])


def put_back(y: Tensor, axes: Sequence[PickedAxis]) -> Tensor:
    """Return the adjoint of `picked`: elements at the places that they are picked from, and zeros.

    It is a view if no step is negative and there are no other places.
    """
    part = _backwards(y[_at([axis.supports[1] for axis in axes])], axes)
    return _placed(part, [axis.n_input for axis in axes], _sources(axes))


def _sources(axes: Sequence[PickedAxis]) -> list[slice]:
    """Return the picked slice of each axis, starting at the lowest element."""
    reads = [axis.supports[0] for axis in axes]
    pairs = zip(reads, axes, strict=True)
    return [slice(read.start, read.stop, abs(axis.step)) for read, axis in pairs]


def _at(pieces: Sequence[slice]) -> tuple[EllipsisType | slice, ...]:
    return (..., *pieces)


def _backwards(part: Tensor, axes: Sequence[PickedAxis]) -> Tensor:
    numbers = [number for number, axis in enumerate(axes, -len(axes)) if axis.step < 0]
    return part.flip(numbers) if numbers else part


def _placed(part: Tensor, lengths: Sequence[int], places: Sequence[slice]) -> Tensor:
    """Return ``part`` at these places of a larger tensor of zeros."""
    batch = part.shape[: part.ndim - len(lengths)]
    if part.shape[len(batch) :] == tuple(lengths):
        return part
    whole = part.new_zeros(*batch, *lengths)
    whole[_at(places)] = part
    return whole

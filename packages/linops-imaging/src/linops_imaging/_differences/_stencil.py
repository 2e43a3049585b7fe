r"""Stencils along the axes of a grid, between slices of it, as sums of shifted copies.

Along one axis of N points a stencil is :math:`y_i = \sum_s c_s x_{i + s}` with shifts s of -1, 0
and 1. The points -1 and N are outside: they are zero, or the points at the other end, or those at
this end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from torch import Tensor, add, mul
from torch.autograd.forward_ad import unpack_dual

from linops_core.siblings import writing_is_safe

BOUNDARIES = ("zeros", "circular", "replicate")

Stencil: TypeAlias = Mapping[int, float]
"""The factor of each shift."""


Piece: TypeAlias = tuple[int, int, tuple[tuple[int, float], ...]]
"""Start and length of a range of points, and the shifts that contribute to it with factors."""


class Part(NamedTuple):
    """A slice of the input and a slice of the output, along the same axis."""

    inputs: range
    outputs: range

    @property
    def lengths(self) -> tuple[int, int]:
        """Length of both slices."""
        return len(self.inputs), len(self.outputs)

    @property
    def supports(self) -> tuple[None, None]:
        """Not known here."""
        return None, None

    @property
    def reverse(self) -> Part:
        """The way back."""
        return Part(self.outputs, self.inputs)

    def cut(self, of_inputs: slice | None, of_outputs: slice | None) -> Part:
        """Return a part of the part."""
        inputs, outputs = self
        return Part(
            inputs if of_inputs is None else inputs[of_inputs],
            outputs if of_outputs is None else outputs[of_outputs],
        )


class Run(NamedTuple):
    """A range of output points; the input point at a fixed distance contributes to each."""

    factor: float
    shift: int
    """Distance from a point of the output to its point of the input."""
    start: int
    stop: int
    """Of the output."""

    @property
    def reverse(self) -> Run:
        """The way back."""
        factor, shift, start, stop = self
        return Run(factor, -shift, start + shift, stop + shift)

    @property
    def written(self) -> slice:
        """The points of the output."""
        return slice(self.start, self.stop)

    @property
    def read(self) -> slice:
        """The points of the input."""
        return slice(self.start + self.shift, self.stop + self.shift)

    def within(self, part: Part) -> Run:
        """Return the run within the slices of ``part``, counted from their starts; may be empty."""
        inputs, outputs = part
        start = max(self.start, outputs.start, inputs.start - self.shift)
        stop = min(self.stop, outputs.stop, inputs.stop - self.shift)
        shift = self.shift + outputs.start - inputs.start
        return Run(self.factor, shift, start - outputs.start, max(start, stop) - outputs.start)


class Term(NamedTuple):
    """A component of the output, a component of the input, and the axis of the stencil."""

    output: int
    input: int
    axis: int
    factor: float

    @property
    def reverse(self) -> Term:
        """The way back."""
        return Term(self.input, self.output, self.axis, self.factor)


def runs_of(stencil: Stencil, size: int, boundary: str) -> tuple[Run, ...]:
    """Return the runs of a stencil along an axis."""
    runs = []
    for shift, factor in stencil.items():
        start, stop = max(0, -shift), min(size, size - shift)
        runs.append(Run(factor, shift, start, stop))
        if shift and boundary != "zeros":
            end = size - 1 if shift > 0 else 0  # whose neighbour is outside
            neighbour = end if boundary == "replicate" else size - 1 - end
            runs.append(Run(factor, neighbour - end, end, end + 1))
    return tuple(runs)


class Step(NamedTuple):
    """The contribution of a term between the slices."""

    term: Term
    output: int
    input: int
    """The components, counted from the starts of their slices."""
    own: tuple[Run, ...]
    """The run along the axis of the term."""
    passed: tuple[tuple[int, Run], ...]
    """The other axes, each with the points in both slices."""
    pieces: tuple[Piece, ...]
    is_first: bool
    """Whether it writes first; later steps add."""

    def runs(self, axis: int) -> Sequence[Run]:
        """Return the runs along an axis."""
        return self.own if axis == self.term.axis else [dict(self.passed)[axis]]


class Plan(NamedTuple):
    """How to compute a sum of terms between slices."""

    lengths: tuple[int, ...]
    """Length of each axis of the output, and last the number of components."""
    steps: tuple[Step, ...]
    is_covered: bool
    """Whether the first steps write all of the output."""


def planned(terms: Iterable[Term], parts: Sequence[Part], runs: Sequence[Sequence[Run]]) -> Plan:
    """Return the plan for the terms; the last part is for the components."""
    *grid, (inputs, outputs) = parts
    lengths = [len(part.outputs) for part in parts]
    same = [Run(1, 0, 0, part.outputs.stop).within(part) for part in grid]
    steps: list[Step] = []
    written: list[int] = []
    is_covered = True
    for term in terms:
        axis = term.axis
        own = [run.within(grid[axis]) for run in runs[axis]]
        own = [run for run in own if run.start < run.stop]
        passed = [(number, run) for number, run in enumerate(same) if number != axis]
        if (
            own
            and all([run.start < run.stop for _, run in passed])
            and term.output in outputs
            and term.input in inputs
        ):
            output, input_ = term.output - outputs.start, term.input - inputs.start
            fills = all([run.stop - run.start == lengths[number] for number, run in passed])
            is_covered = is_covered and (fills or output in written)
            pieces = tuple(_pieces(own, lengths[axis]))
            is_first = output not in written
            steps.append(Step(term, output, input_, tuple(own), tuple(passed), pieces, is_first))
            written.append(output)
    is_covered = (
        is_covered
        and len(written) > 0
        and all([number in written for number in range(len(outputs))])
    )
    return Plan(tuple(lengths), tuple(steps), is_covered)


def applied(x: Tensor, plan: Plan, axes: Sequence[int]) -> Tensor:
    """Carry out the plan for an x whose axis 0 counts components.

    ``axes`` are the axes of the grid in x. Only the result is allocated.
    """
    sizes = list(x.shape)
    for axis, length in zip((*axes, 0), plan.lengths, strict=True):
        sizes[axis] = length
    y = x.new_empty(sizes) if plan.is_covered else x.new_zeros(sizes)
    write = _summed_into if writing_is_safe() and unpack_dual(x).tangent is None else _copied_into
    for step in plan.steps:
        into, of = y.narrow(0, step.output, 1), x.narrow(0, step.input, 1)
        for number, run in step.passed:
            into = into.narrow(axes[number], run.start, run.stop - run.start)
            of = of.narrow(axes[number], run.start + run.shift, run.stop - run.start)
        axis = axes[step.term.axis]
        for start, length, factors in step.pieces:
            points = into.narrow(axis, start, length)
            shifted = [
                (step.term.factor * factor, of.narrow(axis, start + shift, length))
                for shift, factor in factors
            ]
            if step.is_first and plan.is_covered:
                shifted = write(points, shifted)
            for factor, part in shifted:
                points.add_(part, alpha=factor)
    return y


def _pieces(runs: Sequence[Run], length: int) -> Iterator[Piece]:
    """Yield the ranges of an output to which the same shifts contribute."""
    ends = sorted({0, length, *[end for run in runs for end in (run.start, run.stop)]})
    for start, stop in pairwise(ends):
        factors: dict[int, float] = {}
        for run in runs:
            if run.start <= start < run.stop:
                factors[run.shift] = factors.get(run.shift, 0) + run.factor
        yield start, stop - start, tuple([pair for pair in factors.items() if pair[1]])


_Shifted: TypeAlias = list[tuple[float, Tensor]]
_Write: TypeAlias = Callable[[Tensor, _Shifted], _Shifted]


def _summed_into(points: Tensor, shifted: _Shifted) -> _Shifted:
    """Write the sum of up to two parts, in one pass if the factor of one is 1; return the rest."""
    if not shifted:
        points.zero_()
        return []
    (factor, first), *rest = sorted(shifted, key=lambda pair: pair[0] != 1)
    if factor != 1 or not rest:
        mul(first, factor, out=points)
        return rest
    (other, second), *rest = rest
    add(first, second, alpha=other, out=points)
    return rest


def _copied_into(points: Tensor, shifted: _Shifted) -> _Shifted:
    """Do the same without ``out=``: under transforms, and in a compiler."""
    if not shifted:
        points.zero_()
        return []
    (factor, first), *rest = shifted
    points.copy_(first)
    if factor != 1:
        points.mul_(factor)
    return rest

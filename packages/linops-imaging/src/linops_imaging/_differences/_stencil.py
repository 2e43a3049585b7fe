r"""Stencils along the axes of a grid, between slices of it, as sums of shifted copies.

Along one axis of N points a stencil is :math:`y_i = \sum_s c_s x_{i + s}` with shifts s of -1, 0
and 1. The points -1 and N are outside: they are zero, or the points at the other end, or those at
this end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

from torch import Tensor

BOUNDARIES = ("zeros", "circular", "replicate")

Stencil: TypeAlias = Mapping[int, float]
"""The factor of each shift."""


class SlicePair(NamedTuple):
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
    def reverse(self) -> SlicePair:
        """The way back."""
        return SlicePair(self.outputs, self.inputs)

    def cut(self, of_inputs: slice | None, of_outputs: slice | None) -> SlicePair:
        """Return these slices of both slices."""
        inputs, outputs = self
        return SlicePair(
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

    def within(self, pair: SlicePair) -> Run:
        """Return the run within the slices of ``pair``, counted from their starts; may be empty."""
        inputs, outputs = pair
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


def stencil_runs(stencil: Stencil, size: int, boundary: str) -> tuple[Run, ...]:
    """Return the runs of a stencil along an axis, of which no two join the same two points."""
    runs = []
    for shift, factor in stencil.items():
        start, stop = max(0, -shift), min(size, size - shift)
        runs.append(Run(factor, shift, start, stop))
        if shift and boundary != "zeros":
            end = size - 1 if shift > 0 else 0  # whose neighbour is outside
            neighbour = end if boundary == "replicate" else size - 1 - end
            runs.append(Run(factor, neighbour - end, end, end + 1))
    joined = []
    ends = sorted({0, size, *[end for run in runs for end in (run.start, run.stop)]})
    for start, stop in pairwise(ends):
        factors: dict[int, float] = {}
        for run in runs:
            if run.start <= start < run.stop:
                factors[run.shift] = factors.get(run.shift, 0) + run.factor
        # Factors of 0 would make NaN of infinite numbers.
        joined += [Run(f, shift, start, stop) for shift, f in factors.items() if f]
    return tuple(joined)


class TermRuns(NamedTuple):
    """The contribution of a term between the slices."""

    term: Term
    """Its components are counted from the starts of their slices."""
    runs: tuple[tuple[Run, ...], ...]
    """The runs along each axis of the grid: those of the stencil, or all points."""


class StencilPlan(NamedTuple):
    """How to compute a sum of terms between slices."""

    lengths: tuple[int, ...]
    """Length of each axis of the output, and last the number of components."""
    steps: tuple[TermRuns, ...]


def stencil_plan(
    terms: Iterable[Term], pairs: Sequence[SlicePair], runs: Sequence[Sequence[Run]]
) -> StencilPlan:
    """Return the plan for the terms; the last pair is for the components."""
    *grid, (inputs, outputs) = pairs
    same = [[Run(1, 0, 0, pair.outputs.stop)] for pair in grid]
    steps: list[TermRuns] = []
    for term in terms:
        if term.output not in outputs or term.input not in inputs:
            continue
        along = [runs[axis] if axis == term.axis else same[axis] for axis in range(len(grid))]
        within = [[run.within(pair) for run in row] for row, pair in zip(along, grid, strict=True)]
        row = tuple([tuple([run for run in each if run.start < run.stop]) for each in within])
        if all(row):
            output, input_ = term.output - outputs.start, term.input - inputs.start
            steps.append(TermRuns(Term(output, input_, term.axis, term.factor), row))
    return StencilPlan(tuple([len(pair.outputs) for pair in pairs]), tuple(steps))


def apply_stencil_plan(x: Tensor, plan: StencilPlan, axes: Sequence[int]) -> Tensor:
    """Carry out the plan for an x whose axis 0 counts components.

    ``axes`` are the axes of the grid in x. Only the result is allocated.
    """
    sizes = list(x.shape)
    for axis, length in zip((*axes, 0), plan.lengths, strict=True):
        sizes[axis] = length
    y = x.new_zeros(sizes)
    for term, runs in plan.steps:
        for along in product(*runs):
            target, source = y.narrow(0, term.output, 1), x.narrow(0, term.input, 1)
            factor = term.factor
            for axis, run in zip(axes, along, strict=True):
                length = run.stop - run.start
                target = target.narrow(axis, run.start, length)
                source = source.narrow(axis, run.start + run.shift, length)
                factor *= run.factor
            target.add_(source, alpha=factor)
    return y

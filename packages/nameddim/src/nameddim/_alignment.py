"""How two patterns can be the same dimensions: the product of their automata.

A pattern reads dimensions one after the other. In state ``i`` it has matched its first ``i`` single
elements (names and one-dimension wildcards); an ellipsis there lets it read anything and stay. Two
patterns that read the same dimensions are in a pair of states, and every such pair and every pair
of steps between them makes a graph without cycles, apart from the pairs in which both may stay.
Its size is the product of the lengths, however many ellipses there are.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from nameddim._dimension import ELLIPSES, RUN, NamedDimension, is_any
from nameddim._parse import Dims

State = tuple[int, int]


class Pattern:
    """A tuple of dimensions as an automaton: its single elements, and where it may stay."""

    def __init__(self, dims: Dims) -> None:
        self.singles: list[NamedDimension] = []
        # For each state, where in `dims` the ellipsis is that lets it stay: the last, if several
        # stand side by side, because they are no more than one.
        self.stays: list[int | None] = [None]
        self.positions: list[int] = []
        for position, dim in enumerate(dims):
            if dim != ELLIPSES:
                self.singles.append(dim)
                self.positions.append(position)
                self.stays.append(None)
            else:
                self.stays[-1] = position

    def __len__(self) -> int:
        return len(self.singles)


class Step(NamedTuple):
    """What is read between two pairs of states, and which element of either pattern reads it."""

    dim: NamedDimension
    own: int
    other: int
    to: State


class Alignment:
    """All ways in which `own` and `other` can be the same dimensions.

    What is read is written as `own` writes it, unless `other` is more specific: there, a wildcard
    of `own` gives way to a name, and its ellipsis to any single element.
    """

    def __init__(self, own: Dims, other: Dims) -> None:
        self.own, self.other = Pattern(own), Pattern(other)
        self.end: State = (len(self.own), len(self.other))

    def may_stay(self, state: State) -> bool:
        """Whether both patterns may read anything and stay where they are."""
        return self.own.stays[state[0]] is not None and self.other.stays[state[1]] is not None

    @cached_property
    def live(self) -> dict[State, list[Step]]:
        """The steps out of each pair of states from which the end can be reached.

        In an order in which every step leads to a pair that comes earlier.
        """
        reached: dict[State, list[Step]] = {}
        pending: list[State] = [(0, 0)]
        while pending:
            state = pending.pop()
            if state not in reached:
                reached[state] = list(self._steps(*state))
                pending += [step.to for step in reached[state]]
        live: dict[State, list[Step]] = {}
        # Every step leads to a pair that is larger.
        for state in sorted(reached, reverse=True):
            steps = [step for step in reached[state] if step.to in live]
            if steps or state == self.end:
                live[state] = steps
        return live

    def _steps(self, i: int, j: int) -> Iterator[Step]:
        """Yield the steps out of the pair (`i`, `j`), apart from staying there."""
        own, other = self.own, self.other
        mine = own.singles[i] if i < len(own) else None
        theirs = other.singles[j] if j < len(other) else None
        stay, other_stay = own.stays[i], other.stays[j]
        if mine is not None and theirs is not None and (both := meet(mine, theirs)) is not None:
            yield Step(both, own.positions[i], other.positions[j], (i + 1, j + 1))
        if mine is not None and other_stay is not None:
            yield Step(mine, own.positions[i], other_stay, (i + 1, j))
        if theirs is not None and stay is not None:
            yield Step(theirs, stay, other.positions[j], (i, j + 1))

    def ways(self) -> Iterator[list[Step]]:
        """Yield the paths from start to end, each as what is read on it.

        Each takes the time of its length, because no path is tried that does not reach the end.
        """
        # A path is a linked list, so that paths share what they have in common.
        pending: list[tuple[State, _Path | None]] = [((0, 0), None)] if (0, 0) in self.live else []
        while pending:
            state, path = pending.pop()
            mine, theirs = self.own.stays[state[0]], self.other.stays[state[1]]
            if mine is not None and theirs is not None:
                path = _Path(Step(RUN, mine, theirs, state), path)
            if state == self.end:
                yield _unlinked(path)
            for step in self.live[state]:
                pending.append((step.to, _Path(step, path)))


class _Path(NamedTuple):
    last: Step
    before: "_Path | None"


def _unlinked(path: _Path | None) -> list[Step]:
    steps = []
    while path is not None:
        steps.append(path.last)
        path = path.before
    return steps[::-1]


def meet(mine: NamedDimension, theirs: NamedDimension) -> NamedDimension | None:
    """Return what two single elements can both be, or None; `mine` if `theirs` is a wildcard."""
    if mine == theirs or is_any(theirs):
        return mine
    return theirs if is_any(mine) else None


def runs_of(way: list[Step], own: Dims) -> list[Dims]:
    """Return, for each element of `own`, what it stands for in `way`."""
    runs: list[list[NamedDimension]] = [[] for _ in own]
    for step in way:
        runs[step.own].append(step.dim)
    return [tuple(run) for run in runs]

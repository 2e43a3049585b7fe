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
    """A tuple of dimensions as an automaton; the lists have an entry for each of its states.

    ``singles`` and ``positions`` have the single element that is next, and where it is in the
    tuple; ``stays`` has where the ellipsis is that lets it stay: the last, if several stand side
    by side, because they are no more than one. None: there is none.
    """

    def __init__(self, dims: Dims) -> None:
        self.singles: list[NamedDimension | None] = []
        self.positions: list[int] = []
        self.stays: list[int | None] = [None]
        for position, dim in enumerate(dims):
            if dim == ELLIPSES:
                self.stays[-1] = position
            else:
                self.singles.append(dim)
                self.positions.append(position)
                self.stays.append(None)
        self.singles.append(None)
        self.end = len(self.positions)


class Step(NamedTuple):
    """What is read between two pairs of states, and which element of the first pattern reads it."""

    dim: NamedDimension
    own: int
    to: State


class Alignment:
    """All ways in which `own` and `other` can be the same dimensions.

    What is read is written as `own` writes it, unless `other` is more specific: there, a wildcard
    of `own` gives way to a name, and its ellipsis to any single element.
    """

    def __init__(self, own: Dims, other: Dims) -> None:
        self.own, self.other = Pattern(own), Pattern(other)
        self.end: State = (self.own.end, self.other.end)

    @property
    def exists(self) -> bool:
        """Whether there is any way."""
        return (0, 0) in self.live

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
        mine, theirs, stay = own.singles[i], other.singles[j], own.stays[i]
        if mine is not None and theirs is not None and (both := meet(mine, theirs)) is not None:
            yield Step(both, own.positions[i], (i + 1, j + 1))
        if mine is not None and other.stays[j] is not None:
            yield Step(mine, own.positions[i], (i + 1, j))
        if theirs is not None and stay is not None:
            yield Step(theirs, stay, (i, j + 1))

    def ways(self) -> Iterator[tuple[Step, ...]]:
        """Yield the paths from start to end, each as what is read on it.

        No path is tried that does not reach the end.
        """
        pending: list[tuple[State, tuple[Step, ...]]] = [((0, 0), ())]
        while pending:
            state, path = pending.pop()
            stay = self.own.stays[state[0]]
            if stay is not None and self.may_stay(state):
                path += (Step(RUN, stay, state),)
            if state == self.end:
                yield path
            pending += [(step.to, (*path, step)) for step in self.live.get(state, ())]


def meet(mine: NamedDimension, theirs: NamedDimension) -> NamedDimension | None:
    """Return what two single elements can both be, or None; `mine` if `theirs` is a wildcard."""
    if mine == theirs or is_any(theirs):
        return mine
    return theirs if is_any(mine) else None


def runs_of(way: tuple[Step, ...], own: Dims) -> list[Dims]:
    """Return, for each element of `own`, what it stands for in `way`."""
    return [tuple(step.dim for step in way if step.own == position) for position in range(len(own))]

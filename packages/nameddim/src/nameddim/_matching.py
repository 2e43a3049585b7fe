"""Matching of two patterns, by the product of their automata.

A pattern reads dimensions one after the other. In state ``i`` it has matched its first ``i`` single
elements (names and one-dimension wildcards). With an ellipsis there, it may read anything and stay.
Two patterns that read the same dimensions are in a pair of states. The steps between pairs form a
graph without cycles, except for pairs in which both may stay. The graph is as large as the product
of the two lengths, for any number of ellipses.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, product
from typing import NamedTuple

from nameddim._dimension import RUN, NamedDimension, is_any, is_wildcard
from nameddim._parse import Dims, as_dims

Pair = tuple[int, int]


class PatternState(NamedTuple):
    """The next single element of a pattern, and where it and the ellipsis before it are."""

    single: NamedDimension
    position: int
    stay: int | None
    """Position of the last ellipsis directly before `single`; None if there is none."""


def states_of(dims: Dims) -> list[PatternState]:
    """Return the states of a pattern; the single element of the last state is the ellipsis."""
    states: list[PatternState] = []
    stay = None
    for position, dim in enumerate(dims):
        if dim == RUN:
            stay = position
        else:
            states.append(PatternState(dim, position, stay))
            stay = None
    return [*states, PatternState(RUN, len(dims), stay)]


class Transition(NamedTuple):
    """The dimension read between two pairs of states, and the position of what reads it."""

    dim: NamedDimension
    position: int
    to: Pair


class Alignment:
    """All ways in which `pattern` and `other` can be the same dimensions.

    The dimensions of `pattern` are read, except where `other` is more specific: a name of `other`
    replaces a wildcard of `pattern`, and any single element of `other` replaces its ellipsis.
    """

    def __init__(self, pattern: Dims, other: Dims) -> None:
        self.pattern, self.other = states_of(pattern), states_of(other)
        self.end: Pair = (len(self.pattern) - 1, len(self.other) - 1)

    @property
    def exists(self) -> bool:
        """Whether the two patterns match."""
        return (0, 0) in self.live

    def may_stay(self, pair: Pair) -> bool:
        """Whether both patterns may read anything and stay where they are."""
        return self.pattern[pair[0]].stay is not None and self.other[pair[1]].stay is not None

    @cached_property
    def live(self) -> dict[Pair, list[Transition]]:
        """Steps out of each pair of states that can reach the end, pairs near the end first."""
        live: dict[Pair, list[Transition]] = {self.end: []}
        for i, j in product(*(range(last, -1, -1) for last in self.end)):
            a, b = self.pattern[i], self.other[j]
            both, pattern_alone, other_alone = (i + 1, j + 1), (i + 1, j), (i, j + 1)
            steps = []
            if both in live and (dim := meet(a.single, b.single)) is not None:
                steps.append(Transition(dim, a.position, both))
            if pattern_alone in live and b.stay is not None:
                steps.append(Transition(a.single, a.position, pattern_alone))
            if other_alone in live and a.stay is not None:
                steps.append(Transition(b.single, a.stay, other_alone))
            if steps:
                live[i, j] = steps
        return live

    def ways(self) -> Iterator[tuple[Transition, ...]]:
        """Yield the paths from start to end; each is the sequence of its steps."""
        pending: list[tuple[Pair, tuple[Transition, ...]]] = [((0, 0), ())]
        while pending:
            pair, path = pending.pop()
            stay = self.pattern[pair[0]].stay
            if stay is not None and self.may_stay(pair):
                path += (Transition(RUN, stay, pair),)
            if pair == self.end:
                yield path
            pending += [(step.to, (*path, step)) for step in self.live.get(pair, ())]


def meet(a: NamedDimension, b: NamedDimension) -> NamedDimension | None:
    """Return the common part of two single elements, or None; `a` if `b` is a wildcard."""
    if a == b or is_any(b):
        return a
    return b if is_any(a) else None


def runs_of(way: tuple[Transition, ...], pattern: Dims) -> list[Dims]:
    """Return, for each element of `pattern`, the dimensions it stands for in `way`."""
    positions = range(len(pattern))
    return [tuple(step.dim for step in way if step.position == number) for number in positions]


def iscompatible(a: Iterable[str], b: Iterable[str]) -> bool:
    """Whether some dimensions match both `a` and `b`.

    ``"..."`` stands for any number of consecutive dimensions, also none. ``"()"``, ``"(1)"``,
    ``"(2)"``, ... stand for one dimension each, independently of each other. `a` and `b` match if
    some tuple of names fits both. The relation is reflexive and symmetric; it is transitive if the
    shape in the middle has no wildcards. The time is proportional to the product of the lengths.

    Parameters
    ----------
    a, b : iterable of str
        The patterns, with any number of wildcards; read, and checked, by :func:`as_dims`.

    Examples
    --------
    >>> iscompatible(("...", "Nx"), ("C", "()"))
    True
    >>> iscompatible(("...", "Nx"), ("C", "Ny"))
    False
    """
    return Alignment(as_dims(a), as_dims(b)).exists


def isequal(a: Iterable[str], b: Iterable[str]) -> tuple[bool, dict[NamedDimension, Dims]]:
    """Whether `a` and `b` match, as :func:`iscompatible`, and what the wildcards of `a` stand for.

    Returns
    -------
    matches : bool
    mapping : dict of NamedDimension to tuple of NamedDimension
        The dimensions that each wildcard of `a` stands for: one for ``"()"``, any number for
        ``"..."``. If `b` has a wildcard at this position, the entry has the wildcard of `a`. The
        mapping is empty if `a` and `b` match in more than one way. It has no entry for a wildcard
        that stands for different dimensions at different positions.

    Examples
    --------
    >>> isequal(("...", "()"), ("C", "Nx", "Ny"))
    (True, {'...': ('C', 'Nx'), '()': ('Ny',)})
    >>> isequal(("...", "Nx", "..."), ("Nx", "Nx"))
    (True, {})
    >>> isequal(("...", "Nx"), ("C", "Ny"))
    (False, {})
    """
    pattern = as_dims(a)
    ways = list(islice(Alignment(pattern, as_dims(b)).ways(), 2))
    if len(ways) != 1:
        return bool(ways), {}
    runs_of_name: dict[NamedDimension, set[Dims]] = {}
    for dim, run in zip(pattern, runs_of(ways[0], pattern), strict=True):
        if is_wildcard(dim):
            runs_of_name.setdefault(dim, set()).add(run)
    return True, {dim: runs.pop() for dim, runs in runs_of_name.items() if len(runs) == 1}

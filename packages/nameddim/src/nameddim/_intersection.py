"""What two patterns have in common, if that is one pattern.

The words that two patterns share are those of one pattern exactly if they are those of a certain
candidate: its single elements are what the shortest of the words are made of, and it has an
ellipsis wherever a dimension that nobody named can be put in. Both are found, and the candidate is
checked, in polynomial time, however many ellipses there are.
"""

from itertools import islice

from nameddim._alignment import Alignment, Pattern, State
from nameddim._dimension import RUN, NamedDimension, is_any
from nameddim._parse import Dims


def intersection(own: Dims, other: Dims) -> list[Dims]:
    """Return the one pattern that says what both have in common.

    If no pattern does, return two of the ways in which they match; if they do not match, nothing.
    """
    if own == other:
        return [own]
    ways = list(islice(Alignment(own, other).ways(), 100))
    found = list(dict.fromkeys(tuple(step.dim for step in way) for way in ways))
    if len(ways) < 2:
        return found
    # Several ways may still be one pattern: (..., X) and ((), ...) have the words of (..., X).
    own, other = _singles_first(own), _singles_first(other)
    alignment = Alignment(own, other)
    candidate = _with_ellipses(_shortest(alignment), own, other)
    exact = _reads_all(Pattern(candidate), alignment) and all(
        _reads_all(Pattern(dims), Alignment(candidate, (RUN,))) for dims in (own, other)
    )
    # All ways that were tried may read the same.
    return [candidate] if exact else [*found, candidate][:2]


def _singles_first(dims: Dims) -> Dims:
    """Return `dims` with one ellipsis at the end of each run of wildcards that has any.

    It has the same words, and is the only such tuple that has them.
    """
    ordered: list[NamedDimension] = []
    for dim in dims:
        if ordered[-1:] != [RUN]:
            ordered.append(dim)
        elif is_any(dim):
            ordered.insert(-1, dim)
        elif dim != RUN:
            ordered.append(dim)
    return tuple(ordered)


def _shortest(alignment: Alignment) -> Dims:
    """Return the only pattern without ellipses that can have exactly the shortest words."""
    distance = {alignment.end: 0}
    for state, steps in alignment.live.items():
        if steps:
            distance[state] = 1 + min(distance[step.to] for step in steps)
    states = {(0, 0)}
    singles: list[NamedDimension] = []
    while states != {alignment.end}:
        nearer = [
            step
            for state in states
            for step in alignment.live[state]
            if distance[step.to] < distance[state]
        ]
        # Wildcards sort before names. Of several names any will do: no candidate passes its check.
        singles.append(min(step.dim for step in nearer))
        states = {step.to for step in nearer}
    return tuple(singles)


def _with_ellipses(singles: Dims, own: Dims, other: Dims) -> Dims:
    """Return `singles` with an ellipsis wherever both patterns let a new dimension be put in."""
    new = NamedDimension("New").next_unused({*own, *other})
    word = tuple(new if is_any(dim) else dim for dim in singles)
    dims: list[NamedDimension] = []
    for position in range(len(singles) + 1):
        longer = (*word[:position], new, *word[position:])
        # In a run of wildcards all places are the same: the last is taken.
        is_last = position == len(singles) or not is_any(singles[position])
        if is_last and Alignment(longer, own).exists and Alignment(longer, other).exists:
            dims.append(RUN)
        dims += singles[position : position + 1]
    return tuple(dims)


def _reads_all(pattern: Pattern, alignment: Alignment) -> bool:
    """Whether `pattern` can follow `alignment`, whatever that reads, and end where it ends.

    If so, all words of the alignment are words of the pattern, which is what makes an answer right.
    The converse is not proved, but is tested on all small patterns: it takes single wildcards that
    come before the ellipsis beside them, so that the pattern need not look ahead.
    """
    # For each pair of states, those from which the pattern can follow to the end.
    follows: dict[State, set[int]] = {}
    for state, steps in alignment.live.items():
        can = follows[state] = set()
        for k in range(pattern.end, -1, -1):
            single, stays = pattern.singles[k], pattern.stays[k] is not None
            takes_any = single is not None and is_any(single)
            if (
                (state != alignment.end or k == pattern.end)
                and (not alignment.may_stay(state) or stays or (takes_any and k + 1 in can))
                and all(
                    (stays and k in follows[step.to])
                    or ((takes_any or single == step.dim) and k + 1 in follows[step.to])
                    for step in steps
                )
            ):
                can.add(k)
    return 0 in follows[0, 0]

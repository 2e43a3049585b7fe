"""The common pattern of several patterns, if there is a single one.

A pattern stands for a set of words (tuples of names). Two patterns have a common pattern exactly if
their common words are the words of a certain candidate. The single elements of the candidate are
those of the shortest common words; it has an ellipsis wherever both patterns allow a new dimension.
The candidate is built and checked in polynomial time, for any number of ellipses.
"""

from collections.abc import Iterable
from itertools import combinations, islice

from nameddim._dimension import RUN, NamedDimension, is_any
from nameddim._errors import written
from nameddim._matching import Alignment, Pair, PatternState, states_of
from nameddim._parse import Dims, as_dims


def resolve_wildcards(shape: Iterable[str], target: Iterable[str]) -> Dims:
    """Return `shape` with its wildcards replaced by what they stand for in `target`.

    Where `target` has a wildcard, the element of `shape` stays. So the result is the most general
    pattern that is contained in both.

    Parameters
    ----------
    shape, target : iterable of str
        The patterns, as for :func:`iscompatible`.

    Raises
    ------
    ValueError
        If they do not match, or if no single pattern describes everything they have in common.

    Examples
    --------
    >>> resolve_wildcards(("...", "Ny"), ("C", "()", "..."))
    ('C', '...', 'Ny')
    """
    pattern, other = as_dims(shape), as_dims(target)
    candidates = intersection(pattern, other)
    if not candidates:
        raise ValueError(
            "resolve_wildcards: shape and target must match, "
            f"got {written(pattern)} and {written(other)}"
        )
    if len(candidates) > 1:
        raise ValueError(
            "resolve_wildcards: the common part of shape and target must be one pattern, "
            f"got {written(pattern)} and {written(other)}, {_which_can_be(candidates)}"
        )
    return candidates[0]


def max_shape(shapes: Iterable[Iterable[str]]) -> Dims:
    """Return the most general pattern that is contained in all of `shapes`.

    Parameters
    ----------
    shapes : iterable of iterable of str
        The patterns, as for :func:`iscompatible`, in any order. Without shapes: ``("...",)``.

    Raises
    ------
    TypeError
        If `shapes` is a single string.
    ValueError
        If they do not all match, or if no single pattern describes everything they have in common.

    Examples
    --------
    >>> max_shape([("...", "Ny"), ("C", "..."), ("()", "Nx", "...")])
    ('C', 'Nx', '...', 'Ny')
    """
    if isinstance(shapes, str) or not isinstance(shapes, Iterable):
        raise TypeError(f"max_shape: shapes must be an iterable of shapes, got {shapes!r}")
    distinct = list(dict.fromkeys(map(as_dims, shapes)))
    for a, b in combinations(distinct, 2):
        if not Alignment(a, b).exists:
            raise ValueError(
                f"max_shape: all shapes must match each other, got {written(a)} and {written(b)}"
            )
    # Some pairs have a single common pattern only after a third is added: take any pair that has.
    while len(distinct) > 1:
        for a, b in combinations(distinct, 2):
            candidates = intersection(a, b)
            if not candidates:
                raise ValueError(
                    "max_shape: all shapes must match at once, got shapes that reduce to "
                    f"{', '.join(map(written, distinct))}, where {written(a)} and {written(b)} "
                    "do not match"
                )
            if len(candidates) == 1:
                distinct = [
                    dims for dims in distinct if dims not in (a, b, *candidates)
                ] + candidates
                break
        else:
            a, b = distinct[:2]
            raise ValueError(
                "max_shape: the common part of all shapes must be one pattern, "
                f"got {written(a)} and {written(b)}, {_which_can_be(intersection(a, b))}"
            )
    return distinct[0] if distinct else (RUN,)


def _which_can_be(candidates: list[Dims]) -> str:
    return f"which can be {' or '.join(map(written, candidates))}"


def intersection(pattern: Dims, other: Dims) -> list[Dims]:
    """Return the common pattern, or two of several, or none if the patterns do not match."""
    if pattern == other:
        return [pattern]
    ways = list(islice(Alignment(pattern, other).ways(), 100))
    candidates = list(dict.fromkeys(tuple(step.dim for step in way) for way in ways))
    if len(ways) < 2:
        return candidates
    # Several ways may still give one pattern: (..., X) and ((), ...) have the words of (..., X).
    pattern, other = _singles_first(pattern), _singles_first(other)
    alignment = Alignment(pattern, other)
    candidate = _with_ellipses(_shortest(alignment), pattern, other)
    exact = _reads_all(states_of(candidate), alignment) and all(
        _reads_all(states_of(dims), Alignment(candidate, (RUN,))) for dims in (pattern, other)
    )
    # All ways that were tried may give the same pattern.
    return [candidate] if exact else [*candidates, candidate][:2]


def _singles_first(dims: Dims) -> Dims:
    """Return the pattern with the same words in which ellipses come after the wildcards."""
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
    """Return the pattern without ellipses whose words are the shortest words, if there is one."""

    def names_last(dims: Dims) -> tuple[int, int, Dims]:
        # Of the shortest patterns, only the one with the fewest names can have all their words.
        return len(dims), sum(not is_any(dim) for dim in dims), dims

    best: dict[Pair, Dims] = {alignment.end: ()}
    for pair, steps in alignment.live.items():
        if steps:
            best[pair] = min(((step.dim, *best[step.to]) for step in steps), key=names_last)
    return best[0, 0]


def _with_ellipses(singles: Dims, pattern: Dims, other: Dims) -> Dims:
    """Return `singles` with an ellipsis wherever both patterns allow a new dimension."""
    new = NamedDimension("New").next_unused({*pattern, *other})
    word = tuple(new if is_any(dim) else dim for dim in singles)
    dims: list[NamedDimension] = []
    for position in range(len(singles) + 1):
        longer = (*word[:position], new, *word[position:])
        # In a run of wildcards all positions are equivalent: use the last one.
        is_last = position == len(singles) or not is_any(singles[position])
        if is_last and Alignment(longer, pattern).exists and Alignment(longer, other).exists:
            dims.append(RUN)
        dims += singles[position : position + 1]
    return tuple(dims)


def _reads_all(states: list[PatternState], alignment: Alignment) -> bool:
    """Whether a pattern can follow every path of `alignment` and end where it ends.

    If so, it has all words of the alignment. The converse is not proved; it is tested on all small
    patterns whose ellipses come after the wildcards, so that they need not look ahead.
    """
    # For each pair of states, the states from which the pattern can follow to the end.
    follows: dict[Pair, set[int]] = {}
    for pair, steps in alignment.live.items():
        can = follows[pair] = set()
        for k, state in reversed(list(enumerate(states))):
            stays, takes_any = state.stay is not None, is_any(state.single)
            if (
                (pair != alignment.end or k == len(states) - 1)
                and (not alignment.may_stay(pair) or stays or (takes_any and k + 1 in can))
                and all(
                    (stays and k in follows[step.to])
                    or ((takes_any or state.single == step.dim) and k + 1 in follows[step.to])
                    for step in steps
                )
            ):
                can.add(k)
    return 0 in follows[0, 0]

"""The dimensions that several patterns have in common, as one pattern."""

from collections.abc import Iterable
from itertools import combinations, islice

from nameddim._alignment import Alignment, Pattern
from nameddim._dimension import ANY, ELLIPSES, NamedDimension, is_any, is_wildcard
from nameddim._errors import written
from nameddim._matching import have_common
from nameddim._parse import Dims, as_dims

_ONE = NamedDimension(ANY)
_RUN = NamedDimension(ELLIPSES)


def resolve_wildcards(shape: Iterable[str], target: Iterable[str]) -> Dims:
    """Return `shape` with its wildcards replaced by what they stand for in `target`.

    A name is never replaced by a wildcard: where `target` has a wildcard, what `shape` has stays.
    So the result is the most general pattern that is contained in both.

    Parameters
    ----------
    shape, target : iterable of str
        The patterns, as for :func:`iscompatible`.

    Raises
    ------
    TypeError
        If `shape` or `target` is not made of strings.
    ValueError
        If a name is bad; if `shape` and `target` have nothing in common; or if what they have in
        common is not one pattern.

    Examples
    --------
    >>> resolve_wildcards(("...", "Ny"), ("C", "()", "..."))
    ('C', '...', 'Ny')
    """
    own, other = as_dims(shape), as_dims(target)
    if not have_common(own, other):
        raise ValueError(
            "resolve_wildcards: shape and target must match, "
            f"got {written(own)} and {written(other)}"
        )
    common = _common(own, other)
    if common is None:
        raise ValueError(
            "resolve_wildcards: what shape and target have in common must be one pattern, "
            f"got {written(own)} and {written(other)}, which can be {_some_ways(own, other)}"
        )
    return common


def max_shape(shapes: Iterable[Iterable[str]]) -> Dims:
    """Return the most general pattern that is contained in all of `shapes`.

    Parameters
    ----------
    shapes : iterable of iterable of str
        The patterns, as for :func:`iscompatible`, in any order.

    Returns
    -------
    tuple of NamedDimension
        What is the same dimensions as it is the same as each of `shapes`, and the other way round.
        ``("...",)`` for no shapes.

    Raises
    ------
    TypeError
        If `shapes` is not made of iterables of strings.
    ValueError
        If a name is bad; if two of the shapes have nothing in common; or if what all have in
        common is not one pattern.

    Examples
    --------
    >>> max_shape([("...", "Ny"), ("C", "..."), ("()", "Nx", "...")])
    ('C', 'Nx', '...', 'Ny')
    """
    distinct = list(dict.fromkeys(map(as_dims, shapes)))
    for a, b in combinations(distinct, 2):
        if not have_common(a, b):
            raise ValueError(
                f"max_shape: all shapes must match each other, got {written(a)} and {written(b)}"
            )
    # Two that have several patterns in common may have but one with a third: take any two that go.
    while len(distinct) > 1:
        for a, b in combinations(distinct, 2):
            if not have_common(a, b):
                given = ", ".join(map(written, distinct))
                raise ValueError(
                    "max_shape: all shapes must match at once, got shapes that reduce to "
                    f"{given}, where {written(a)} and {written(b)} do not match"
                )
            common = _common(a, b)
            if common is not None:
                distinct = [c for c in distinct if c not in (a, b, common)] + [common]
                break
        else:
            a, b = distinct[:2]
            raise ValueError(
                "max_shape: what the shapes have in common must be one pattern, "
                f"got {written(a)} and {written(b)}, which can be {_some_ways(a, b)}"
            )
    return distinct[0] if distinct else (_RUN,)


def _common(own: Dims, other: Dims) -> Dims | None:
    """Return the pattern of all words of both, or None if they are not one pattern's words."""
    if own == other or not any(map(is_wildcard, own)):
        return own
    if not any(map(is_wildcard, other)):
        return other
    ways = list(islice(Alignment(own, other).ways(), 2))
    if len(ways) == 1:
        return tuple(step.dim for step in ways[0])
    # Several ways may still be one pattern: that of (..., X) and ((), ...) are those of (..., X).
    own, other = _singles_first(own), _singles_first(other)
    alignment = Alignment(own, other)
    common = _only_candidate(alignment, own, other)
    if (
        common is not None
        and _reads_at_most(alignment, Pattern(common))
        and all(_reads_at_most(Alignment(common, (_RUN,)), Pattern(dims)) for dims in (own, other))
    ):
        return common
    return None


def _singles_first(dims: Dims) -> Dims:
    """Return `dims` with one ellipsis at the end of each run of wildcards that has any.

    It has the same words, and is the only such tuple that has them.
    """
    ordered: list[NamedDimension] = []
    for dim in dims:
        if ordered[-1:] != [_RUN]:
            ordered.append(dim)
        elif is_any(dim):
            ordered.insert(-1, dim)
        elif dim != _RUN:
            ordered.append(dim)
    return tuple(ordered)


def _only_candidate(alignment: Alignment, own: Dims, other: Dims) -> Dims | None:
    """Return the one pattern that can have the words of `alignment`, or None if there is none.

    Its single elements are those of the shortest words, and it has an ellipsis where a fresh
    dimension can be put between them.
    """
    distance = {alignment.end: 0}
    for state, steps in alignment.live.items():
        if steps:
            distance[state] = 1 + min(distance[step.to] for step in steps)
    states = {(0, 0)}
    singles: list[NamedDimension] = []
    while states != {alignment.end}:
        steps = [
            step
            for state in states
            for step in alignment.live[state]
            if distance[step.to] < distance[state]
        ]
        dims = sorted({step.dim for step in steps})
        free = [dim for dim in dims if is_any(dim)]
        if len(dims) > 1 and not free:
            return None
        singles.append(free[0] if free else dims[0])
        states = {step.to for step in steps}
    fresh = NamedDimension("Fresh").next_unused({*own, *other})
    word = tuple(fresh if is_any(dim) else dim for dim in singles)
    common: list[NamedDimension] = []
    for position in range(len(singles) + 1):
        longer = (*word[:position], fresh, *word[position:])
        at_end_of_run = position == len(singles) or not is_any(singles[position])
        if at_end_of_run and have_common(longer, own) and have_common(longer, other):
            common.append(_RUN)
        common += singles[position : position + 1]
    return tuple(common)


def _reads_at_most(alignment: Alignment, pattern: Pattern) -> bool:
    """Whether `pattern` can follow `alignment`, whatever it reads, and end where it ends."""
    # For each pair of states, the states from which the pattern can follow to the end.
    follows: dict[tuple[int, int], set[int]] = {}
    for state, steps in alignment.live.items():
        can = follows[state] = set()
        for k in range(len(pattern), -1, -1):
            single = pattern.singles[k] if k < len(pattern) else None
            stays = pattern.stays[k] is not None
            takes_any = single is not None and is_any(single)
            if (
                (state != alignment.end or k == len(pattern))
                and (not alignment.may_stay(state) or stays or (takes_any and k + 1 in can))
                and all(
                    (stays and k in follows[step.to])
                    or ((takes_any or single == step.dim) and k + 1 in follows[step.to])
                    for step in steps
                )
            ):
                can.add(k)
    return 0 in follows[0, 0]


def _some_ways(a: Dims, b: Dims) -> str:
    """Two of the ways in which `a` and `b` match, for a message."""
    ways = (tuple(step.dim for step in way) for way in Alignment(a, b).ways())
    return " or ".join(map(written, islice(dict.fromkeys(islice(ways, 100)), 2)))

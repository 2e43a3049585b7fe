"""What the wildcards of a shape stand for, jointly in all of its tuples.

Here a tuple has at most one ellipsis and no name twice, as in every :class:`NamedShape`.
"""

from collections.abc import Iterator, Mapping

from nameddim._dimension import ANY, ELLIPSES, NamedDimension, is_any
from nameddim._errors import written
from nameddim._parse import Dims

# A wildcard, and which one of those that are written alike within a tuple.
Variable = tuple[NamedDimension, int]

_BLANK = NamedDimension(ANY)
_RUN = NamedDimension(ELLIPSES)


def ways(own: Dims, target: Dims) -> Iterator[list[Dims]]:
    """Yield, for each way in which both are the same dimensions, what `own` stands for.

    A way is a list with one run for each element of `own`: itself for a name; the name in the
    target for a wildcard, or itself where the target has a wildcard too, which says nothing; for
    the ellipsis a run, in which there may be an ellipsis again.

    Both are a head, a run or none, and a tail. With a run in both, words that are long enough for
    all heads and tails to stand side by side are one way; in each shorter length, where a head of
    the one reaches into a tail of the other, there may be one way more.
    """
    head, tail, own_is_open = _cut(own)
    target_head, target_tail, target_is_open = _cut(target)
    shortest, target_shortest = len(head) + len(tail), len(target_head) + len(target_tail)
    longest_head = max(len(head), len(target_head))
    side_by_side = longest_head + max(len(tail), len(target_tail))
    low = max(shortest, target_shortest)
    if own_is_open and target_is_open:
        lengths = range(low, side_by_side + 1)
    else:
        fixed = target_shortest if own_is_open else shortest
        if low > fixed or (not target_is_open and fixed != target_shortest):
            return
        lengths = range(fixed, fixed + 1)
    for length in lengths:
        words = target_head + (_BLANK,) * (length - target_shortest) + target_tail
        first, last = len(head), length - len(tail)
        run = words[first:last]
        if own_is_open and target_is_open and length == side_by_side:
            run = (*words[first:longest_head], _RUN, *words[longest_head:last])
        fixed_part = [
            _meet(mine, theirs)
            for mine, theirs in zip(head + tail, words[:first] + words[last:], strict=True)
        ]
        known = [(dim,) for dim in fixed_part if dim is not None]
        if len(known) == len(fixed_part):
            yield [*known[:first], *([run] if own_is_open else []), *known[first:]]


def _cut(shape: Dims) -> tuple[Dims, Dims, bool]:
    """Return what is before the ellipsis, what is after it, and whether there is one."""
    if ELLIPSES not in shape:
        return shape, (), False
    at = shape.index(ELLIPSES)
    return shape[:at], shape[at + 1 :], True


def _meet(mine: NamedDimension, theirs: NamedDimension) -> NamedDimension | None:
    """Return what both can be, or None; `mine` where `theirs` is a wildcard."""
    if mine == theirs or is_any(theirs):
        return mine
    return theirs if is_any(mine) else None


def substituted(parts: Mapping[str, Dims], side: str, runs: list[Dims]) -> dict[str, Dims]:
    """Return `parts` in which what stands in ``parts[side]`` is replaced by `runs`, everywhere.

    Raises
    ------
    ValueError
        If it cannot be told which ``"()"`` of one tuple is which of another.
    """
    known = {
        variable: run
        for variable, run in zip(_variables(parts[side]), runs, strict=True)
        if run != (variable[0],)
    }
    _check_pairs(parts, known)
    _number_anew(parts, known)
    return {
        key: tuple(
            dim for variable in _variables(dims) for dim in known.get(variable, (variable[0],))
        )
        for key, dims in parts.items()
    }


def _variables(dims: Dims) -> Iterator[Variable]:
    """Yield each element with the number of those before it that are written alike."""
    for position, dim in enumerate(dims):
        yield dim, dims[:position].count(dim)


def _check_pairs(parts: Mapping[str, Dims], known: Mapping[Variable, Dims]) -> None:
    """Refuse to replace a ``"()"`` where the tuples do not have equally many."""
    if not any(dim == ANY for dim, _ in known):
        return
    counts = {key: n for key, dims in parts.items() if (n := dims.count(NamedDimension(ANY)))}
    if len(set(counts.values())) > 1:
        some = " and ".join(f"{n} in {key} {written(parts[key])}" for key, n in counts.items())
        raise ValueError(
            'every shape with "()" must have equally many, so that the first of one is the first '
            f'of another (or number them: "(1)", "(2)"), got {some}'
        )


def _number_anew(parts: Mapping[str, Dims], known: dict[Variable, Dims]) -> None:
    """Give unused numbers to the wildcards of the runs in `known` that `parts` has already."""
    own = {dim for dims in parts.values() for dim in dims}
    used = own.union(*known.values())
    for variable, run in known.items():
        fresh = []
        for dim in run:
            if is_any(dim) and dim in own:
                dim = dim.next_unused(used)
                used.add(dim)
            fresh.append(dim)
        known[variable] = tuple(fresh)

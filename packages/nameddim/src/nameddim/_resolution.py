"""What the wildcards of a shape stand for, jointly in all of its tuples.

A shape is here its tuples by their names. A tuple has at most one ellipsis and no name twice.
"""

from collections.abc import Iterator
from itertools import product

from nameddim._alignment import Alignment, runs_of
from nameddim._dimension import ANY, RUN, NamedDimension, is_any
from nameddim._errors import written
from nameddim._names import partition
from nameddim._parse import Dims, check_distinct

Parts = dict[str, Dims]

# A wildcard, and which one of those that are written alike within a tuple.
Variable = tuple[NamedDimension, int]


def resolutions(parts: Parts, targets: Parts) -> tuple[list[Parts], str]:
    """Return the shapes that `parts` can be if some of its tuples are `targets`; one if certain.

    The second value is the error of a shape that was left out because two of its dimensions would
    have the same name, or is empty.
    """
    clashes: list[str] = []
    fewest: list[Parts] | None = None
    for placed in product(*map(_placements, targets.values())):
        found = [parts]
        for side, target in zip(targets, placed, strict=True):
            tried, found = found, []
            for shape in tried:
                found += [new for new in _matched(shape, side, target, clashes) if new not in found]
        if fewest is None or len(found) < len(fewest):
            fewest = found
    return fewest or [], clashes[-1] if clashes else ""


def _matched(parts: Parts, side: str, target: Dims, clashes: list[str]) -> Iterator[Parts]:
    """Yield what `parts` can be if ``parts[side]`` is `target`; put into `clashes` what cannot."""
    own = parts[side]
    if own == target:
        yield parts
        return
    for way in Alignment(own, target).ways():
        new = _substituted(parts, side, runs_of(way, own))
        try:
            for key, dims in new.items():
                check_distinct(key, dims)
        except ValueError as error:
            clashes.append(str(error))
        else:
            yield new


def _placements(target: Dims) -> Iterator[Dims]:
    """Yield `target`, and the same with its ellipsis elsewhere among the wildcards beside it.

    They differ in how many ways a shape matches them: ((), ...) matches (..., ()) in two, of which
    neither is all that both have in common, and matches ((), ...), which means the same, in one.
    """
    yield target
    before, ellipsis, after = partition(target, RUN)
    rest = before + after
    for place in range(len(rest) + 1) if ellipsis else ():
        passed = rest[min(place, len(before)) : max(place, len(before))]
        if passed and all(map(is_any, passed)):
            yield (*rest[:place], RUN, *rest[place:])


def _substituted(parts: Parts, side: str, runs: list[Dims]) -> Parts:
    """Return `parts` in which what stands in ``parts[side]`` is replaced by `runs`, everywhere."""
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


def _check_pairs(parts: Parts, known: dict[Variable, Dims]) -> None:
    """Refuse to replace a ``"()"`` where the tuples do not have equally many."""
    if not any(dim == ANY for dim, _ in known):
        return
    counts = {key: n for key, dims in parts.items() if (n := dims.count(NamedDimension(ANY)))}
    if len(set(counts.values())) > 1:
        some = " and ".join(f"{n} in {key} {written(parts[key])}" for key, n in counts.items())
        raise ValueError(
            'NamedShape: every tuple with "()" must have equally many, so that the first of '
            f'one is the first of another (or number them: "(1)", "(2)"), got {some}'
        )


def _number_anew(parts: Parts, known: dict[Variable, Dims]) -> None:
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

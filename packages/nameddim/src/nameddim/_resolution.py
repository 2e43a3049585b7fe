"""What the wildcards of a shape, its tuples by their names, stand for in all tuples at once."""

from collections.abc import Iterator
from itertools import product

from nameddim._dimension import ANY, RUN, NamedDimension, is_any
from nameddim._errors import written
from nameddim._matching import Alignment, runs_of
from nameddim._names import partition
from nameddim._parse import Dims, check_distinct

Parts = dict[str, Dims]

# A wildcard, and which one of those that are written alike within a tuple.
Variable = tuple[NamedDimension, int]


def resolutions(parts: Parts, targets: Parts) -> tuple[list[Parts], str]:
    """Return the shapes that `parts` can be if some of its tuples are `targets`; one if certain.

    The second value is empty, or says why a shape was left out in which two dimensions of a tuple
    would have one name.
    """
    clashes = [""]
    candidates = []
    for placed in product(*map(_placements, targets.values())):
        found = [parts]
        for side, target in zip(targets, placed, strict=True):
            tried, found = found, []
            for shape in tried:
                found += [new for new in _matched(shape, side, target, clashes) if new not in found]
        candidates.append(found)
    return min(candidates, key=len), clashes[-1]


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
            clashes.append(f"; {error}")
        else:
            yield new


def _placements(target: Dims) -> Iterator[Dims]:
    """Yield `target`, and the same with its ellipsis elsewhere among the wildcards beside it.

    The ways to match them are unlike in number: ((), ...) matches itself in one, (..., ()) in two.
    """
    yield target
    before, ellipsis, after = partition(target, RUN)
    rest = before + after
    for place in range(len(rest) + 1) if ellipsis else ():
        passed = rest[min(place, len(before)) : max(place, len(before))]
        if passed and all(map(is_any, passed)):
            yield (*rest[:place], RUN, *rest[place:])


def _substituted(parts: Parts, side: str, runs: list[Dims]) -> Parts:
    """Return `parts` in which what stands in ``parts[side]`` is replaced by `runs`, everywhere.

    Wildcards of the runs that `parts` has already get unused numbers.
    """
    own = {dim for dims in parts.values() for dim in dims}
    used = own.union(*runs)
    known: dict[Variable, Dims] = {}
    for variable, run in zip(_variables(parts[side]), runs, strict=True):
        if run == variable[:1]:
            continue
        fresh = []
        for dim in run:
            if is_any(dim) and dim in own:
                dim = dim.next_unused(used)
                used.add(dim)
            fresh.append(dim)
        known[variable] = tuple(fresh)
    if any(dim == ANY for dim, _ in known):
        _check_pairs(parts)
    return {
        key: tuple(
            dim for variable in _variables(dims) for dim in known.get(variable, variable[:1])
        )
        for key, dims in parts.items()
    }


def _variables(dims: Dims) -> Iterator[Variable]:
    """Yield each element with the number of those before it that are written alike."""
    for position, dim in enumerate(dims):
        yield dim, dims[:position].count(dim)


def _check_pairs(parts: Parts) -> None:
    """Refuse to replace a ``"()"`` where the tuples do not have equally many."""
    counts = {key: n for key, dims in parts.items() if (n := dims.count(NamedDimension(ANY)))}
    if len(set(counts.values())) > 1:
        some = " and ".join(f"{n} in {key} {written(parts[key])}" for key, n in counts.items())
        raise ValueError(
            'NamedShape: every tuple with "()" must have equally many, so that the first of '
            f'one is the first of another (or number them: "(1)", "(2)"), got {some}'
        )

"""What the wildcards of a shape stand for, in all of its tuples at once."""

from collections.abc import Iterator
from itertools import product

from nameddim._dimension import ANY, RUN, NamedDimension, is_any
from nameddim._errors import written
from nameddim._matching import Alignment, runs_of
from nameddim._names import partition
from nameddim._parse import Dims, check_distinct

Tuples = dict[str, Dims]

# A wildcard, and its number among equal wildcards of a tuple.
Wildcard = tuple[NamedDimension, int]


def resolutions(tuples: Tuples, targets: Tuples) -> tuple[list[Tuples], str]:
    """Return the shapes that `tuples` can be if some of its tuples are `targets`.

    If the match is unique, there is one. The second value is empty, or says why a shape was left
    out in which two dimensions of a tuple would have the same name.
    """
    clashes = [""]
    candidates = []
    for placed in product(*map(_placements, targets.values())):
        matched = [tuples]
        for side, target in zip(targets, placed, strict=True):
            tried, matched = matched, []
            for shape in tried:
                matched += [
                    new for new in _matched(shape, side, target, clashes) if new not in matched
                ]
        candidates.append(matched)
    return min(candidates, key=len), clashes[-1]


def _matched(tuples: Tuples, side: str, target: Dims, clashes: list[str]) -> Iterator[Tuples]:
    """Yield the shapes of `tuples` if ``tuples[side]`` is `target`; put errors into `clashes`."""
    pattern = tuples[side]
    if pattern == target:
        yield tuples
        return
    for way in Alignment(pattern, target).ways():
        new = _substituted(tuples, side, runs_of(way, pattern))
        try:
            for key, dims in new.items():
                check_distinct(key, dims)
        except ValueError as error:
            clashes.append(f"; {error}")
        else:
            yield new


def _placements(target: Dims) -> Iterator[Dims]:
    """Yield `target`, and the same with its ellipsis elsewhere among the neighbouring wildcards.

    These are equivalent, but match in different numbers of ways: ((), ...) matches itself in one
    way, (..., ()) in two.
    """
    yield target
    before, ellipsis, after = partition(target, RUN)
    rest = before + after
    for at in range(len(rest) + 1) if ellipsis else ():
        passed = rest[min(at, len(before)) : max(at, len(before))]
        if passed and all(map(is_any, passed)):
            yield (*rest[:at], RUN, *rest[at:])


def _substituted(tuples: Tuples, side: str, runs: list[Dims]) -> Tuples:
    """Return `tuples` with the elements of ``tuples[side]`` replaced by `runs`, everywhere.

    If `tuples` already has a wildcard of the runs, the wildcard gets an unused number.
    """
    elements = {dim for dims in tuples.values() for dim in dims}
    used = elements.union(*runs)
    new_runs: dict[Wildcard, Dims] = {}
    for variable, run in zip(_variables(tuples[side]), runs, strict=True):
        if run == variable[:1]:
            continue
        fresh = []
        for dim in run:
            if is_any(dim) and dim in elements:
                dim = dim.next_unused(used)
                used.add(dim)
            fresh.append(dim)
        new_runs[variable] = tuple(fresh)
    if any(dim == ANY for dim, _ in new_runs):
        _check_pairs(tuples)
    return {
        key: tuple(
            dim for variable in _variables(dims) for dim in new_runs.get(variable, variable[:1])
        )
        for key, dims in tuples.items()
    }


def _variables(dims: Dims) -> Iterator[Wildcard]:
    """Yield each element with the number of equal elements before it."""
    for position, dim in enumerate(dims):
        yield dim, dims[:position].count(dim)


def _check_pairs(tuples: Tuples) -> None:
    """Raise an error if the tuples have different numbers of ``"()"``."""
    counts = {key: n for key, dims in tuples.items() if (n := dims.count(NamedDimension(ANY)))}
    if len(set(counts.values())) > 1:
        some = " and ".join(f"{n} in {key} {written(tuples[key])}" for key, n in counts.items())
        raise ValueError(
            'NamedShape: every tuple with "()" must have the same number of them, because they '
            f'are matched in order (or number them: "(1)", "(2)"), got {some}'
        )

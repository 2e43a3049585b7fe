"""The best common shape of several patterns."""

from collections.abc import Iterable
from itertools import combinations, islice

from nameddim._alignment import Alignment
from nameddim._dimension import RUN
from nameddim._errors import written
from nameddim._intersection import intersection
from nameddim._matching import have_common
from nameddim._parse import Dims, as_dims


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
    common = intersection(own, other)
    if common is None:
        raise _ambiguous("resolve_wildcards: what shape and target", own, other)
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
        Its words are those that all of `shapes` have. ``("...",)`` for no shapes.

    Raises
    ------
    TypeError
        If `shapes` is not made of iterables of strings, or is one string.
    ValueError
        If a name is bad; if two of the shapes have nothing in common; or if what all have in
        common is not one pattern.

    Examples
    --------
    >>> max_shape([("...", "Ny"), ("C", "..."), ("()", "Nx", "...")])
    ('C', 'Nx', '...', 'Ny')
    """
    if isinstance(shapes, str) or not isinstance(shapes, Iterable):
        raise TypeError(f"max_shape: shapes must be an iterable of shapes, got {shapes!r}")
    given = distinct = list(dict.fromkeys(map(as_dims, shapes)))
    while len(distinct) > 1:
        for a, b in combinations(distinct, 2):
            if not have_common(a, b):
                how = (
                    "each other, got" if distinct is given else "at once, got shapes that reduce to"
                )
                raise ValueError(
                    f"max_shape: all shapes must match {how} {written(a)} and {written(b)}"
                )
        # Two that have several patterns in common may have but one with a third: take any that go.
        for a, b in combinations(distinct, 2):
            common = intersection(a, b)
            if common is not None:
                distinct = [c for c in distinct if c not in (a, b, common)] + [common]
                break
        else:
            raise _ambiguous("max_shape: what the shapes", *distinct[:2])
    return distinct[0] if distinct else (RUN,)


def _ambiguous(what: str, a: Dims, b: Dims) -> ValueError:
    """Return the error that `a` and `b` match in several ways; it shows two."""
    ways = (tuple(step.dim for step in way) for way in Alignment(a, b).ways())
    some = " or ".join(map(written, islice(dict.fromkeys(islice(ways, 100)), 2)))
    return ValueError(
        f"{what} have in common must be one pattern, got {written(a)} and {written(b)}, "
        f"which can be {some}"
    )

"""The best common shape of several patterns."""

from collections.abc import Iterable
from itertools import combinations

from nameddim._alignment import Alignment
from nameddim._dimension import RUN
from nameddim._errors import written
from nameddim._intersection import intersection
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
    found = intersection(own, other)
    if not found:
        raise ValueError(
            "resolve_wildcards: shape and target must match, "
            f"got {written(own)} and {written(other)}"
        )
    if len(found) > 1:
        raise ValueError(
            "resolve_wildcards: what shape and target have in common must be one pattern, "
            f"got {written(own)} and {written(other)}, {_which_can_be(found)}"
        )
    return found[0]


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
    distinct = list(dict.fromkeys(map(as_dims, shapes)))
    for a, b in combinations(distinct, 2):
        if not Alignment(a, b).exists:
            raise ValueError(
                f"max_shape: all shapes must match each other, got {written(a)} and {written(b)}"
            )
    # Two that have several patterns in common may have but one with a third: take any two that go.
    while len(distinct) > 1:
        for a, b in combinations(distinct, 2):
            found = intersection(a, b)
            if not found:
                raise ValueError(
                    "max_shape: all shapes must match at once, got shapes that reduce to "
                    f"{', '.join(map(written, distinct))}, where {written(a)} and {written(b)} "
                    "do not match"
                )
            if len(found) == 1:
                distinct = [dims for dims in distinct if dims not in (a, b, *found)] + found
                break
        else:
            a, b = distinct[:2]
            raise ValueError(
                "max_shape: what the shapes have in common must be one pattern, "
                f"got {written(a)} and {written(b)}, {_which_can_be(intersection(a, b))}"
            )
    return distinct[0] if distinct else (RUN,)


def _which_can_be(found: list[Dims]) -> str:
    return f"which can be {' or '.join(map(written, found))}"

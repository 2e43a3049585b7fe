"""Whether two patterns can be the same dimensions."""

from collections.abc import Iterable, Iterator
from itertools import islice

from nameddim._alignment import Alignment, meet, runs_of
from nameddim._dimension import ELLIPSES, NamedDimension, is_wildcard
from nameddim._parse import Dims, as_dims


def iscompatible(a: Iterable[str], b: Iterable[str]) -> bool:
    """Whether there are dimensions that are both `a` and `b`.

    ``"..."`` stands for any run of dimensions, also for none; ``"()"``, ``"(1)"``, ``"(2)"``, ...
    stand for one dimension each, independently of each other. `a` and `b` match if, read like
    that as regular expressions, they have a word in common. The relation is reflexive and
    symmetric; it is transitive where the shape in the middle has no wildcards.

    Parameters
    ----------
    a, b : iterable of str
        The patterns, with any number of wildcards. A plain string is read by :func:`Dim`.

    Returns
    -------
    bool
        Found in time proportional to the product of the lengths at most.

    Raises
    ------
    TypeError, ValueError
        If `a` or `b` is not made of dimensions.

    Examples
    --------
    >>> iscompatible(("...", "Nx"), ("C", "()"))
    True
    >>> iscompatible(("...", "Nx"), ("C", "Ny"))
    False
    """
    return have_common(as_dims(a), as_dims(b))


def isequal(a: Iterable[str], b: Iterable[str]) -> tuple[bool, dict[NamedDimension, Dims]]:
    """Whether `a` and `b` match, and what the wildcards of `a` stand for in `b`.

    Parameters
    ----------
    a, b : iterable of str
        The patterns, as for :func:`iscompatible`.

    Returns
    -------
    matches : bool
        As :func:`iscompatible`.
    mapping : dict of NamedDimension to tuple of NamedDimension
        By wildcards of `a`, the run of dimensions that each stands for: one for ``"()"``, any
        number for ``"..."``. Where `b` has a wildcard too, the run has that of `a`. There is an
        entry only for what is certain: none at all if `a` and `b` match in more than one way,
        and none for a wildcard that `a` has more than once, standing for different runs.

    Raises
    ------
    TypeError, ValueError
        If `a` or `b` is not made of dimensions.

    Examples
    --------
    >>> isequal(("...", "()"), ("C", "Nx", "Ny"))
    (True, {'...': ('C', 'Nx'), '()': ('Ny',)})
    >>> isequal(("...", "Nx", "..."), ("Nx", "Nx"))
    (True, {})
    >>> isequal(("...", "Nx"), ("C", "Ny"))
    (False, {})
    """
    own, other = as_dims(a), as_dims(b)
    if not have_common(own, other):
        return False, {}
    if not any(map(is_wildcard, own)):
        return True, {}
    ways = list(islice(Alignment(own, other).ways(), 2))
    if len(ways) > 1:
        return True, {}
    found: dict[NamedDimension, set[Dims]] = {}
    for dim, run in zip(own, runs_of(ways[0], own), strict=True):
        if is_wildcard(dim):
            found.setdefault(dim, set()).add(run)
    return True, {dim: runs.pop() for dim, runs in found.items() if len(runs) == 1}


def have_common(a: Dims, b: Dims) -> bool:
    """Whether there are dimensions that are both `a` and `b`."""
    if a == b:
        return True
    start = 0
    while start < min(len(a), len(b)) and ELLIPSES not in (a[start], b[start]):
        if meet(a[start], b[start]) is None:
            return False
        start += 1
    a, b = a[start:], b[start:]
    while a and b and ELLIPSES not in (a[-1], b[-1]):
        if meet(a[-1], b[-1]) is None:
            return False
        a, b = a[:-1], b[:-1]
    if not a or not b:
        return set(a + b) <= {ELLIPSES}
    # An ellipsis of one or the other is now at the start, and one is at the end. If both have one,
    # all else fits into these: what one has before its ellipsis into the other's at the start, ...
    if ELLIPSES in a and ELLIPSES in b:
        return True
    pattern, word = (a, b) if ELLIPSES in a else (b, a)
    # Only one has ellipses, at its start and end: what is between two of them may come anywhere,
    # and the first place where it fits leaves most room for what follows.
    start = 0
    for singles in _between_ellipses(pattern):
        while not _fit(singles, word[start : start + len(singles)]):
            start += 1
            if start + len(singles) > len(word):
                return False
        start += len(singles)
    return True


def _fit(singles: Dims, others: Dims) -> bool:
    return len(singles) == len(others) and all(
        meet(mine, theirs) is not None for mine, theirs in zip(singles, others, strict=True)
    )


def _between_ellipses(pattern: Dims) -> Iterator[Dims]:
    """Yield what is between the ellipses of `pattern`."""
    start = 0
    for position, dim in enumerate(pattern):
        if dim == ELLIPSES:
            yield pattern[start:position]
            start = position + 1

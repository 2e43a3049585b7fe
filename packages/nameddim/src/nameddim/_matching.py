"""Whether two patterns can be the same dimensions."""

from collections.abc import Iterable
from itertools import islice

from nameddim._alignment import Alignment, runs_of
from nameddim._dimension import NamedDimension, is_wildcard
from nameddim._parse import Dims, as_dims


def iscompatible(a: Iterable[str], b: Iterable[str]) -> bool:
    """Whether there are dimensions that are both `a` and `b`.

    ``"..."`` stands for any run of dimensions, also for none; ``"()"``, ``"(1)"``, ``"(2)"``, ...
    stand for one dimension each, independently of each other. `a` and `b` match if some tuple of
    names is both. The relation is reflexive and symmetric; it is transitive where the shape in
    the middle has no wildcards.

    Parameters
    ----------
    a, b : iterable of str
        The patterns, with any number of wildcards. A plain string is read by :func:`Dim`.

    Raises
    ------
    TypeError, ValueError
        If `a` or `b` is not made of dimensions.

    Notes
    -----
    Takes time proportional to the product of the lengths at most.

    Examples
    --------
    >>> iscompatible(("...", "Nx"), ("C", "()"))
    True
    >>> iscompatible(("...", "Nx"), ("C", "Ny"))
    False
    """
    return Alignment(as_dims(a), as_dims(b)).exists


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
        For each wildcard of `a` the dimensions that it stands for: one for ``"()"``, any number
        for ``"..."``. Where `b` has a wildcard too, that of `a` is given. The mapping is empty if
        `a` and `b` match in more than one way, and has no entry for a wildcard that stands for
        different dimensions at different places.

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
    own = as_dims(a)
    ways = list(islice(Alignment(own, as_dims(b)).ways(), 2))
    if len(ways) != 1:
        return bool(ways), {}
    found: dict[NamedDimension, set[Dims]] = {}
    for dim, run in zip(own, runs_of(ways[0], own), strict=True):
        if is_wildcard(dim):
            found.setdefault(dim, set()).add(run)
    return True, {dim: runs.pop() for dim, runs in found.items() if len(runs) == 1}

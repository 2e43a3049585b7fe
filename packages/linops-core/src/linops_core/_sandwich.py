"""The normal operator as a composition: there, and back by the adjoint."""

from __future__ import annotations

from nameddim import NamedDimension, is_wildcard

from ._algebra import composed
from ._copying import linked
from ._linop import NamedLinop
from ._normal import fit_inner


def sandwich(linop: NamedLinop, inner: NamedLinop | None = None) -> NamedLinop:
    """Return A^H inner A, in which no two dimensions that differ have one name.

    Raises
    ------
    ValueError
        If ``inner`` is not an operator on the output space of ``linop``.
    """
    if inner is None:
        linop = linked(linop)
        names = names_of_return(linop, linop.oshape, frozenset())
        return composed(linop, linop.H.renamed(names)).as_endomorphism()
    linop, inner = fit_inner(linop, inner)
    linop = linked(linop)
    names = names_of_return(linop, inner.oshape, inner.dims)
    return composed(linop, inner, linop.H.renamed(names)).as_endomorphism()


def names_of_return(
    linop: NamedLinop,
    landing: tuple[NamedDimension, ...],
    taken: frozenset[NamedDimension],
) -> dict[NamedDimension, NamedDimension]:
    """Return the names that the adjoint on the way back needs.

    Its input dimensions take the names with which the way there ended (``landing``); those
    that only the input of ``linop`` or its inside has must not be mistaken for the same
    dimension on the way there, and get a name that nobody has.
    """
    names = {
        here: there
        for here, there in zip(linop.oshape, landing, strict=True)
        if here != there and not is_wildcard(here)
    }
    used = set(linop.dims | taken | set(landing))
    for dim in [*linop.ishape, *sorted(linop.dims - set(linop.ishape), key=str)]:
        if dim not in linop.oshape and not is_wildcard(dim):
            names[dim] = dim.next_unused(used)
            used.add(names[dim])
    return names

"""The normal operator as a composition of A and its adjoint."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import NamedDimension, is_wildcard

from .._base._arithmetic import rules
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._unused_names import unused_names
from ._normal import fit_inner


def normal_of(linop: NamedLinop, inner: NamedLinop | None = None) -> NamedLinop:
    """Return A^H inner A, in which different dimensions have different names."""
    if inner is None:
        linop = linked(linop)
        names = names_of_return(linop, linop.oshape, set())
        return rules.compose(linop, linop.H.renamed(names)).as_endomorphism()
    linop, inner = fit_inner(linop, inner)
    return normal_of_chain([linop], inner)


def normal_of_chain(linops: Sequence[NamedLinop], inner: NamedLinop) -> NamedLinop:
    """Return A_1^H ... A_n^H inner A_n ... A_1, made at once in a number of steps linear in n."""
    there: list[NamedLinop] = []
    back: list[NamedLinop] = []
    landing, used = inner.oshape, {*inner.dims}
    for linop in reversed(linops):
        there.append(linked(linop))
        back.append(linop.H.renamed(names_of_return(linop, landing, used)))
        landing = back[-1].oshape
        used.update(back[-1].dims)
    return rules.compose(*reversed(there), inner, *back).as_endomorphism()


def names_of_return(
    linop: NamedLinop,
    landing: tuple[NamedDimension, ...],
    used: set[NamedDimension],
) -> dict[NamedDimension, NamedDimension]:
    """Return the new names for the adjoint in A^H A.

    Its input takes the output names of A (``landing``). If a dimension is
    only in the input of ``linop`` or inside of it, it gets an unused name, because in A^H it is
    another dimension than in A.
    """
    names = {
        here: there
        for here, there in zip(linop.oshape, landing, strict=True)
        if here != there and not is_wildcard(here)
    }
    used.update(linop.dims, landing)
    each = [*linop.ishape, *sorted(linop.dims - set(linop.ishape), key=str)]
    others = [dim for dim in each if dim not in linop.oshape and not is_wildcard(dim)]
    return names | dict(zip(others, unused_names(others, used), strict=True))

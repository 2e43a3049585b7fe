"""Operators that map a space to itself and may have other names in the output.

The normal operator of a sum over N is (N) -> (N1), so that input and output can be sliced
separately. Operators that are composed with it or added to it may use either name.
"""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import NamedDimension, is_wildcard

from .._base._linop import NamedLinop
from .._base._places import paired
from .._base._unused_names import UnusedNames
from ._fitting import with_inputs_alike
from ._identity import Identity, is_identity
from ._same_space import common_shape


def following(linops: Sequence[NamedLinop]) -> list[NamedLinop]:
    """Return the operators in order; after (N) -> (N1), an operator on N becomes one on N1."""
    for linop in linops:
        if not isinstance(linop, NamedLinop):
            raise TypeError(f"Chain: operands must be NamedLinops, got {type(linop)}")
    result = list(linops[:1])
    for linop in linops[1:]:
        result.append(_spoken_to(result, linop))
    return result


def _spoken_to(before: Sequence[NamedLinop], linop: NamedLinop) -> NamedLinop:
    landing = before[-1].oshape
    if _takes(linop, landing):
        return linop
    for earlier in reversed(before):
        if not earlier.is_endomorphism:
            return linop
        if _takes(linop, earlier.ishape):
            return _renamed(linop.resolved(ishape=earlier.ishape), landing, before)
        if (fitted := linop.fitted_to(earlier.ishape)) is not None:
            return _renamed(fitted, landing, before)
    return linop


def _renamed(
    linop: NamedLinop, ishape: tuple[NamedDimension, ...], before: Sequence[NamedLinop]
) -> NamedLinop:
    """Return ``linop`` with that input, and with unused names for its other dimensions."""
    # Dimensions of a ``...`` on one side keep their names.
    pairs = [(linop.ishape[here], ishape[there]) for here, there in paired(linop.ishape, ishape)]
    names = {here: there for here, there in pairs if not (is_wildcard(here) or is_wildcard(there))}
    taken = frozenset[NamedDimension]().union(*(earlier.dims for earlier in before))
    fixed = frozenset() if linop.is_endomorphism else {*linop.oshape} - {*ishape}
    unused = UnusedNames(linop.dims | taken)
    for dim in sorted(linop.dims - names.keys() - fixed, key=str):
        if dim in taken:
            names[dim] = unused.take(dim)
    return linop.renamed({here: there for here, there in names.items() if here != there})


def landing_alike(linops: Sequence[NamedLinop]) -> Sequence[NamedLinop]:
    """Return operators that map a space to itself with equal names in the output."""
    try:
        common_shape(linop.ishape for linop in linops)
    except ValueError:
        linops = with_inputs_alike(linops)
    lead = next((linop for linop in linops if linop.ishape != linop.oshape), None)
    if lead is None or not all(linop.is_endomorphism for linop in linops):
        return linops
    try:
        lead = lead.resolved(ishape=common_shape(linop.ishape for linop in linops))
    except ValueError:
        return linops  # the shapes do not fit; the sum raises the error
    return [_landing_on(lead, linop) for linop in linops]


def _landing_on(lead: NamedLinop, linop: NamedLinop) -> NamedLinop:
    if linop.oshape == lead.oshape or not _takes(linop, lead.ishape):
        return linop
    linop = linop.resolved(ishape=lead.ishape)
    if linop.oshape == lead.oshape:
        return linop
    renaming = Identity(linop.oshape, lead.oshape)
    return (renaming if is_identity(linop) else renaming @ linop).as_endomorphism()


def _takes(linop: NamedLinop, names: tuple[NamedDimension, ...]) -> bool:
    if linop.ishape == names:
        return True
    try:
        linop.shape.resolve(ishape=names)
    except ValueError:
        return False
    return True

"""Operators that map a space to itself and may have other names in the output.

The normal operator of a sum over N is (N) -> (N1), so that input and output can be sliced
separately. Operators that are composed with it or added to it may use either name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from nameddim import NamedDimension, is_wildcard

from .._base._dimensions import unused_names
from .._base._linop import NamedLinop
from .._base._places import matching_positions
from ._fitting import fitted_input, fitted_with_swapped_names, with_inputs_alike
from ._identity import Identity
from ._same_space import check_operands, common_shape


def named_in_order(linops: Sequence[NamedLinop]) -> list[NamedLinop]:
    """Return operators one after another; after (N) -> (N1), an operator on N becomes one on N1.

    The input of each operator gets the names of the output before it.
    """
    check_operands("Chain", linops)
    named: list[NamedLinop] = []
    used, n_known = set[NamedDimension](), 0
    for linop in linops:
        if named and not _takes(linop, named[-1].oshape):
            fitted = _on_a_space_of(named, linop)
            if fitted is None and (first := _first_placed_by(named, linop)) is not None:
                named, n_known = named_in_order([first, *named[1:]]), 0
                fitted = _on_a_space_of(named, linop)
            fitted = fitted or fitted_with_swapped_names(linop, named[-1].oshape)
            if fitted is not None:
                for earlier in named[n_known:]:  # late, since few compositions need their names
                    used.update(earlier.dims)
                n_known = len(named)
                linop = _continued(fitted, named[-1].oshape, used)
        named.append(linop)
    return named


def _on_a_space_of(named: Sequence[NamedLinop], linop: NamedLinop) -> NamedLinop | None:
    """Return ``linop`` on the input of one of the last operators that map a space to itself."""
    space = [earlier.ishape for earlier in takewhile(_maps_to_itself, reversed(named))]
    if not any(map(is_wildcard, linop.ishape)):
        alike = takewhile(lambda names: len(names) == len(linop.ishape), space)
        if linop.ishape in alike:  # nearly always, and found without a search
            return linop
    for names in space:
        if _takes(linop, names):
            return linop.resolved(ishape=names)
        if (fitted := linop.fitted_to(names)) is not None:
            return fitted
    return None


def _first_placed_by(named: Sequence[NamedLinop], linop: NamedLinop) -> NamedLinop | None:
    """Return the first operator on the input of ``linop``, if it is not, and all are on its space.

    Then ``linop`` says how the grid of the first one is placed.
    """
    if not all(map(_maps_to_itself, named)):
        return None
    first = fitted_input(named[0], linop.ishape)
    return None if first is named[0] else first


def _maps_to_itself(linop: NamedLinop) -> bool:
    return linop.is_endomorphism


def _continued(
    linop: NamedLinop, ishape: tuple[NamedDimension, ...], used: set[NamedDimension]
) -> NamedLinop:
    """Return ``linop`` with that input, and with unused names for its other dimensions."""
    dims = linop.ishape
    # Dimensions of a ``...`` on one side keep their names.
    pairs = [(dims[at], ishape[other]) for at, other in matching_positions(dims, ishape)]
    names = {old: new for old, new in pairs if not (is_wildcard(old) or is_wildcard(new))}
    fixed = frozenset() if linop.is_endomorphism else {*linop.oshape} - {*ishape}
    taken = sorted((linop.dims & used) - names.keys() - fixed, key=str)
    # A name that the operator gives up stays used, which does no harm.
    used.update(linop.dims)
    names.update(zip(taken, unused_names(taken, used), strict=True))
    used.update(names.values())
    return linop.renamed({old: new for old, new in names.items() if old != new})


def with_outputs_alike(linops: Sequence[NamedLinop]) -> Sequence[NamedLinop]:
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
    return [_with_output_of(lead, linop) for linop in linops]


def _with_output_of(lead: NamedLinop, linop: NamedLinop) -> NamedLinop:
    if linop.oshape == lead.oshape or not _takes(linop, lead.ishape):
        return linop
    linop = linop.resolved(ishape=lead.ishape)
    if linop.oshape == lead.oshape:
        return linop
    renaming = Identity(linop.oshape, lead.oshape)
    return (renaming @ linop).as_endomorphism()


def _takes(linop: NamedLinop, names: tuple[NamedDimension, ...]) -> bool:
    if linop.ishape == names:
        return True
    try:
        linop.shape.resolve(ishape=names)
    except ValueError:
        return False
    return True

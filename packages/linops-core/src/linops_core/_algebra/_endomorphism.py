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
    row = _Row()
    for linop in linops:
        row.append(linop)
    return row.linops


class _Row:
    """Operators one after another; each speaks to those before it by the names of their space."""

    def __init__(self) -> None:
        self.linops: list[NamedLinop] = []
        self._unused = UnusedNames()
        self._spaces: set[tuple[NamedDimension, ...]] = set()
        """Inputs of the last operators that map a space with as many dimensions to itself."""
        self._n_known = self._n_dims = 0

    def append(self, linop: NamedLinop) -> None:
        """Add an operator, with names that fit."""
        if self.linops and not _takes(linop, self.linops[-1].oshape):
            linop = self._spoken_to(linop)
        self.linops.append(linop)

    def _spoken_to(self, linop: NamedLinop) -> NamedLinop:
        self._learn_names()
        if linop.ishape in self._spaces and not any(map(is_wildcard, linop.ishape)):
            return self._renamed(linop)  # found at once, however many operators there are
        for earlier in reversed(self.linops):
            if not earlier.is_endomorphism:
                return linop
            if _takes(linop, earlier.ishape):
                return self._renamed(linop.resolved(ishape=earlier.ishape))
            if (fitted := linop.fitted_to(earlier.ishape)) is not None:
                return self._renamed(fitted)
        return linop

    def _learn_names(self) -> None:
        """Take note of the operators since the last call: few compositions need their names."""
        for linop in self.linops[self._n_known :]:
            self._unused.avoid(linop.dims)
            if not linop.is_endomorphism or len(linop.ishape) != self._n_dims:
                self._spaces.clear()
            if linop.is_endomorphism:
                self._spaces.add(linop.ishape)
            self._n_dims = len(linop.ishape)
        self._n_known = len(self.linops)

    def _renamed(self, linop: NamedLinop) -> NamedLinop:
        """Return ``linop`` with that input, and with unused names for its other dimensions."""
        ishape, here = self.linops[-1].oshape, linop.ishape
        # Dimensions of a ``...`` on one side keep their names.
        pairs = [(here[at], ishape[there]) for at, there in paired(here, ishape)]
        names = {old: new for old, new in pairs if not (is_wildcard(old) or is_wildcard(new))}
        fixed = frozenset() if linop.is_endomorphism else {*linop.oshape} - {*ishape}
        others = sorted(linop.dims - names.keys() - fixed, key=str)
        taken = [dim for dim in others if dim in self._unused]
        self._unused.avoid(linop.dims - names.keys())
        names.update(zip(taken, self._unused.each(taken), strict=True))
        return linop.renamed({old: new for old, new in names.items() if old != new})


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

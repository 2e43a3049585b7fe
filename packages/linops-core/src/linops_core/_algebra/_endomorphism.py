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
from ._composite import NAMES, is_listed, names_of, renamed_when_listed
from ._fitting import fitted_input, fitted_turned, with_inputs_alike
from ._identity import Identity
from ._same_space import common_shape


class NamedInOrder:
    """Operators one after another; after (N) -> (N1), an operator on N becomes one on N1.

    The input of each operator gets the names of the output before it.
    """

    def __init__(self, linops: Sequence[NamedLinop]) -> None:
        for linop in linops:
            if not isinstance(linop, NamedLinop):
                raise TypeError(f"Chain: operands must be NamedLinops, got {type(linop)}")
        self.linops: list[NamedLinop] = []
        self._unused = UnusedNames()
        self._spaces: set[tuple[NamedDimension, ...]] = set()
        """Inputs of the last operators that map a space with as many dimensions to itself."""
        self._n_known = self._n_named = self._n_dims = 0
        for linop in linops:
            if self.linops and not _takes(linop, self.linops[-1].oshape):
                linop = self._with_names_before_it(linop)
            self.linops.append(linop)

    def keep_names_with(self, chain: NamedLinop) -> None:
        """Let the chain of the operators keep their names if it would have to list them.

        Chains that are made one from another hand on one collection.
        """
        is_known = self._n_named > 0 or any(NAMES.of(linop) for linop in self.linops)
        if is_known and not is_listed(chain):
            self._learn_names()
            NAMES.keep(chain, self._unused)

    def _with_names_before_it(self, linop: NamedLinop) -> NamedLinop:
        self._learn_names()
        self._learn_spaces()
        if linop.ishape in self._spaces and not any(map(is_wildcard, linop.ishape)):
            return self._renamed(linop)  # found at once, however many operators there are
        for earlier in reversed(self.linops):
            if not earlier.is_endomorphism:
                break
            if _takes(linop, earlier.ishape):
                return self._renamed(linop.resolved(ishape=earlier.ishape))
            if (fitted := linop.fitted_to(earlier.ishape)) is not None:
                return self._renamed(fitted)
        else:
            first = fitted_input(self.linops[0], linop.ishape)
            if first is not None and first is not self.linops[0]:
                # All act on the space of ``linop``, which says how the grid of the first is placed.
                vars(self).update(vars(NamedInOrder([first, *self.linops[1:]])))
                return self._with_names_before_it(linop)
        turned = fitted_turned(linop, self.linops[-1].oshape)
        return linop if turned is None else self._renamed(turned)

    def _learn_names(self) -> None:
        """Take note of the names since the last call: few compositions need them."""
        for linop in self.linops[self._n_named :]:
            self._unused = self._unused.joined(names_of(linop))
        self._n_named = len(self.linops)

    def _learn_spaces(self) -> None:
        """Take note of the spaces since the last call."""
        for linop in self.linops[self._n_known :]:
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
        own = names_of(linop)
        taken = sorted((own & self._unused) - names.keys() - fixed, key=str)
        # A name that the operator gives up stays used, which does no harm.
        self._unused, self._n_named = self._unused.joined(own), self._n_named + 1
        names.update(zip(taken, self._unused.each(taken), strict=True))
        return renamed_when_listed(linop, {old: new for old, new in names.items() if old != new})


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

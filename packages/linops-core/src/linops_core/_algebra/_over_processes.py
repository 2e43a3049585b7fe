"""Operators of one process composed with operators over several processes."""

from __future__ import annotations

from contextlib import suppress

from nameddim import ELLIPSES, NamedDimension

from .._base._dimensions import SIDES
from .._base._linop import NamedLinop
from .._base._question import acts_as
from .._base._roles import Role
from .._base._totals import PartsSideBySide, Totals, totals_of
from ._composite import Composite
from ._identity import Identity
from ._scalar import Scalar


def check_totals(linop: Composite) -> None:
    """Raise an error if operators of a chain or a sum do not have the same parts of vectors."""
    if linop._is_over_processes:
        for side in SIDES:
            with suppress(PartsSideBySide):
                totals_of(linop, side)


def check_shares_pass(linop: NamedLinop, totals: Totals) -> None:
    """Raise an error if an operator of one process mixes shares of a vector.

    Raises
    ------
    NotImplementedError
        If a dimension that is cut is not a batch dimension of the operator.
    """
    for dim in totals.cut:
        if not _lets_through(linop, dim):
            raise NotImplementedError(
                f"{linop.signature}: {dim} must be a batch dimension here, because each "
                f"process has only a part of it, got the role {linop.role(dim) or 'none'}; "
                "distribute this operator as well"
            )


def _lets_through(linop: NamedLinop, dim: NamedDimension) -> bool:
    if acts_as(linop, Identity) or acts_as(linop, Scalar):  # whatever the names of their sides
        return True
    role = linop.role(dim)
    if role is Role.BATCH or (role is None and ELLIPSES in linop.ishape):
        return True
    return isinstance(linop, Composite) and all(
        _lets_through(operand, dim) for operand in linop.linops
    )

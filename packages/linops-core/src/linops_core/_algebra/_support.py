"""Supports: the slices of dimensions outside of which an operator neither reads nor writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nameddim import ND, NamedDimension

from .._base._roles import Role
from .._base._tile import Supports
from .._kernels._slices import hull
from ._composite import Composite


def support_of_one(linop: Any, dim: NamedDimension | str) -> slice | None:
    """Return the support of one dimension, of an operator that finds those of all at once.

    It is the method :meth:`NamedLinop.support` of such an operator.
    """
    name = ND.infer(dim)
    support: slice | None = linop._supports([name])[name]
    return support


def supports_side_by_side(whole: Composite, dims: Iterable[NamedDimension]) -> Supports:
    """Return the supports of operators side by side, or of a sum: what holds that of each.

    None where one has no such dimension: it belongs to the tile that starts at 0, so none may
    begin later.
    """
    found: Supports = dict.fromkeys(dims)
    asked = [dim for dim in found if whole.role(dim) not in (None, Role.OPAQUE)]
    own = [linop._supports([dim for dim in asked if dim in linop.dims]) for linop in whole.linops]
    for dim in asked:
        pieces = [supports.get(dim) for supports in own]
        if None not in pieces:
            found[dim] = hull(piece for piece in pieces if piece is not None)
    return found

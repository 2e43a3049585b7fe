"""Where an operator takes many inputs at once."""

from __future__ import annotations

from nameddim import ELLIPSES, ND

from ._linop import NamedLinop
from ._roles import Role


def batch_axes(linop: NamedLinop) -> tuple[int, int] | None:
    """Return the axes of input and output before which another batch dimension may be put.

    That is where the ``...`` of both shapes is, if it stands for a batch dimension; else None.
    """
    if ELLIPSES not in linop.ishape or ELLIPSES not in linop.oshape:
        return None
    name = ND("Batch").next_unused(linop.dims)
    here, there = (side.index(ELLIPSES) for side in (linop.ishape, linop.oshape))
    named = linop.resolved((*linop.ishape[:here], name, *linop.ishape[here + 1 :]))
    return (here, there) if named.role(name) is Role.BATCH else None

"""narrowed: restrict an operator to what it reads and writes."""

from __future__ import annotations

from linops_core import NamedLinop, Role, Zero
from linops_core.siblings import supports_of
from nameddim import NamedDimension

from ._tiles import Part


def narrowed(linop: NamedLinop) -> Part:
    """Return an operator restricted to what it reads and writes, if this is known.

    A tile of a convolution reads its own slice of the grid and a halo around it, so it need not get
    the rest. Operators inside it compute only what is read: a convolution followed by a crop
    computes only what the crop keeps.

    Returns
    -------
    Part
        The slices that it reads, writes and uses inside, and the operator between them. The rest of
        the input is not read, the rest of the output is zero, and the rest inside adds nothing.

    Raises
    ------
    SplitError
        If the operator cannot be cut at these slices.
    """
    pieces: dict[NamedDimension, slice] = {}
    supports = supports_of(linop, linop.dims - ({*linop.ishape} & {*linop.oshape}))
    for dim, piece in supports.items():
        if piece is None or linop.role(dim) is Role.OPAQUE:
            continue
        size = linop.size(dim)
        if size is None:
            continue
        if piece.start >= piece.stop:
            # A real part returns zeros of another dtype.
            zero = Zero.like(linop) if linop.is_complex_linear else None
            return Part(zero if zero is not None and zero.is_complete else linop)
        if piece.stop - piece.start < size:
            pieces[dim] = piece
    return Part(linop.split(linop, pieces) if pieces else linop, pieces)

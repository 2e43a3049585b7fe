"""The part of a tile that it needs: no more of the input, the output and in between."""

from __future__ import annotations

from linops_core import NamedLinop, Role, Zero
from nameddim import NamedDimension

from ._tiles import Part


def narrowed(linop: NamedLinop) -> Part:
    """Return an operator on no more than it reads and writes, where it says what that is.

    A tile of a convolution reads its own slice of the grid and a halo around it: it need not be
    given the rest. Nor does it compute in between more than is read: a convolution that is followed
    by a crop computes what the crop leaves.

    Returns
    -------
    Part
        The slices that it reads and writes, and the operator between them. What is not read does
        not matter, and what is not written is zero.

    Raises
    ------
    SplitError
        If it cannot be cut there after all.
    """
    pieces: dict[NamedDimension, slice] = {}
    found = linop._supports(linop.dims - ({*linop.ishape} & {*linop.oshape}))
    for dim, piece in found.items():
        if piece is None or linop.role(dim) is Role.OPAQUE:
            continue
        size = linop.size(dim)
        if size is None:
            continue
        if piece.start >= piece.stop:
            zero = Zero.like(linop)
            return Part(zero if zero is not None and zero.is_complete else linop)
        if piece.stop - piece.start < size:
            pieces[dim] = piece
    part = linop.split(linop, pieces) if pieces else linop
    return Part(part, {dim: piece for dim, piece in pieces.items() if dim in linop.shape.dims})

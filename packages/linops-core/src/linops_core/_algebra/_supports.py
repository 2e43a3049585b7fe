"""Supports of compositions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TypeAlias

from nameddim import NamedDimension

from .._base._cutting import tile_of
from .._base._dimensions import may_be_cut
from .._base._linop import NamedLinop
from .._base._roles import Role
from .._base._tile import Supports, Window, within
from .._kernels._slices import hull, intersection, is_empty
from ._composite import Composite, supports_of

DimsOfSide: TypeAlias = Callable[[NamedLinop], tuple[NamedDimension, ...]]


def supports_side_by_side(whole: Composite, *dims: NamedDimension) -> Supports:
    """Return the hull of the supports of the operands; None if one does not have the dimension.

    Such an operand belongs to the tile that starts at 0, so no support may begin later.
    """
    hulls: Supports = dict.fromkeys(dims)
    asked = [dim for dim in hulls if may_be_cut(whole, dim)]
    bounds = [
        supports_of(linop, [dim for dim in asked if dim in linop.dims]) for linop in whole.linops
    ]
    for dim in asked:
        pieces = [supports.get(dim) for supports in bounds]
        if None not in pieces:
            hulls[dim] = hull(piece for piece in pieces if piece is not None)
    return hulls


def supports_along(chain: Composite, *dims: NamedDimension) -> Supports:
    """Return the supports of dimensions of a chain.

    An operand needs to write only what the next one reads, and to read only what the previous one
    writes. One pass goes in each direction, and asks each operand once for all of its dimensions,
    because it may be a chain itself. If nothing is left, the chain is zero.
    """
    supports: Supports = dict.fromkeys(dims)
    asked = [dim for dim in supports if may_be_cut(chain, dim)]
    if not asked:
        return supports
    sliced, windows = _sliced(chain), list[Window]()
    if any(dim in chain.ishape or dim not in chain.oshape for dim in asked):
        windows.append(_left_over(reversed(chain.linops), attrgetter("ishape"), sliced))
    if any(dim not in chain.ishape for dim in asked):
        windows.append(_left_over(chain.linops, attrgetter("oshape"), sliced))
    narrow = {
        dim: piece
        for dim in {name for window in windows for name in window}
        if (piece := intersection(window.get(dim) for window in windows)) is not None
    }
    if any(map(is_empty, narrow.values())):
        return supports | dict.fromkeys(asked, slice(0, 0))
    within_one = [dim for dim in asked if dim not in sliced]
    return supports | {dim: narrow.get(dim) for dim in asked} | _inside(chain, narrow, within_one)


def _sliced(chain: Composite) -> frozenset[NamedDimension]:
    """Return the dimensions along which slices pass between operands."""
    shared = frozenset[NamedDimension]().union(*(operand.shape.dims for operand in chain.linops))
    stretches = Counter(dim for dim in chain.ishape if dim in shared)
    opaque = set[NamedDimension]()
    for linop in chain.linops:
        for dim in shared & linop.dims:
            role = linop.role(dim)
            stretches[dim] += role in (Role.OUTPUT, Role.INNER)
            if role is Role.OPAQUE:
                opaque.add(dim)
    return frozenset(dim for dim in shared - opaque if stretches[dim] == 1)


def _left_over(
    linops: Iterable[NamedLinop], side: DimsOfSide, sliced: frozenset[NamedDimension]
) -> Window:
    """Return the supports between operands after one pass in the given order."""
    window: dict[NamedDimension, slice] = {}
    for linop in linops:
        tile = tile_of(linop, {dim: window[dim] for dim in window.keys() & linop.dims})
        supports = supports_of(tile, [dim for dim in side(tile) if dim in sliced])
        for dim, piece in supports.items():
            if piece is not None:
                window[dim] = within(window.get(dim), piece)
                if is_empty(piece):
                    return window
    return window


def _inside(chain: Composite, window: Window, dims: Iterable[NamedDimension]) -> Supports:
    """Return the supports of dimensions that are inside one operand."""
    supports: Supports = {}
    for linop in chain.linops if dims else ():
        inner_dims = [dim for dim in dims if dim in linop.dims]
        if inner_dims:
            supports |= supports_of(tile_of(linop, window), inner_dims)
    return supports

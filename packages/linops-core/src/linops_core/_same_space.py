"""Operators that must act between the same spaces: the terms of a sum, the blocks of a whole."""

from __future__ import annotations

from collections.abc import Sequence

from nameddim import NamedDimension, max_shape

from ._composite import Composite
from ._linop import NamedLinop
from ._roles import Role, membership


def same_space(
    owner: str,
    linops: Sequence[NamedLinop],
    sized_apart: frozenset[NamedDimension] = frozenset(),
) -> list[NamedLinop]:
    """Return the operators with the one shape that they share, wildcards resolved.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    sized_apart : set of dimensions
        Those in which sizes may differ.

    Raises
    ------
    TypeError
        If one is no operator.
    ValueError
        If they share no shape, two know different sizes, or there is no operator.
    """
    check_operands(owner, linops)
    try:
        ishape = max_shape(dict.fromkeys(linop.ishape for linop in linops))
        oshape = max_shape(dict.fromkeys(linop.oshape for linop in linops))
        fitted = [
            linop
            if linop.ishape == ishape and linop.oshape == oshape
            else linop.resolved(ishape=ishape, oshape=oshape)
            for linop in linops
        ]
    except ValueError as error:
        shapes = "; ".join(f"{linop.signature}" for linop in linops)
        raise ValueError(f"{owner}: all must have one shape, got {shapes}: {error}") from error
    known: dict[NamedDimension, tuple[int, NamedLinop]] = {}
    for linop in fitted:
        for dim in {*linop.ishape, *linop.oshape} - sized_apart:
            size = linop.size(dim)
            if size is not None and (first := known.setdefault(dim, (size, linop)))[0] != size:
                raise ValueError(
                    f"{owner}: {dim} must have one size, got {first[0]} in {first[1].name} "
                    f"({first[1].shape}) and {size} in {linop.signature}"
                )
    return fitted


def check_operands(owner: str, linops: Sequence[NamedLinop]) -> None:
    """Check that there are operators, and nothing else.

    Raises
    ------
    TypeError
        If one is no operator.
    ValueError
        If there is none.
    """
    for linop in linops:
        if not isinstance(linop, NamedLinop):
            raise TypeError(f"{owner}: operands must be NamedLinops, got {type(linop)}")
    if not linops:
        raise ValueError(f"{owner}: there must be at least one operator, got none")


def why_not_alike(whole: Composite, dim: NamedDimension | str) -> str | None:
    """Return why ``dim`` is not the same thing in all operands, or None when it is.

    An operand may lack a dimension that is inside of others; those that have it must agree on
    its size, or no tile of one would be a tile of the other.
    """
    ours = membership(whole.shape, dim)
    sizes = set()
    for linop in whole.linops:
        if dim not in linop.dims and ours is Role.INNER:
            continue
        if (reason := linop.why_opaque(dim)) is not None:
            return f"{linop.signature}: {reason}"
        role = membership(linop.shape, dim)
        if role is not ours:
            return f"{linop.signature}: it is {role} there and {ours} in the whole"
        sizes.add(linop.size(dim))
    if ours is Role.INNER and len(sizes) > 1:
        return f"it has the sizes {sorted(map(str, sizes))} inside of different operands"
    return None

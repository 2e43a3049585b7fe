"""Operators between the same spaces, such as the terms of a sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nameddim import NamedDimension, NamedShape, is_any, max_shape

from .._base._dimensions import dims_of, unused_names
from .._base._linop import NamedLinop
from .._base._places import composition_dims, equal_places_side_by_side
from .._base._roles import Role, membership
from ._composite import Composite

REMEDY = (
    "if only the names differ, rename them by A.renamed({'old': 'new'}) or when you make the "
    "operator; if only the order differs, put a Rearrange behind the operator"
)


def same_space(
    owner: str,
    linops: Sequence[NamedLinop],
    sized_apart: frozenset[NamedDimension] = frozenset(),
) -> list[NamedLinop]:
    """Return the operators with the shape that they share, with wildcards resolved.

    Parameters
    ----------
    owner : str
        Name of the composition, for messages.
    sized_apart : set of dimensions
        Dimensions whose sizes may differ.

    Raises
    ------
    TypeError
        If one is not an operator.
    ValueError
        If they do not share a shape, if two of them know different sizes of a dimension, or if no
        operator is given.
    """
    check_operands(owner, linops)
    try:
        ishape, oshape, fitted = _resolved(linops)
        if any(linop.ishape != ishape or linop.oshape != oshape for linop in fitted):
            # One side determined the ``...`` of the other one.
            ishape, oshape, fitted = _resolved(fitted)
    except ValueError as error:
        shapes = "; ".join(f"{linop.signature}" for linop in linops)
        why = str(error).removeprefix("max_shape: ")
        raise ValueError(
            f"{owner}: all must have one shape, got {shapes}: {why}; {REMEDY}"
        ) from None
    shape = NamedShape(ishape, oshape)
    pairs = (
        places
        for places in equal_places_side_by_side(shape, fitted)
        if dims_of(shape, places[0][1])[places[0][2]] not in sized_apart
    )
    composition_dims(shape, fitted, pairs, owner)
    return fitted


def _resolved(
    linops: Sequence[NamedLinop],
) -> tuple[tuple[NamedDimension, ...], tuple[NamedDimension, ...], list[NamedLinop]]:
    """Return the input and output that fit all, and the operators resolved to them."""
    ishape = common_shape(linop.ishape for linop in linops)
    oshape = common_shape(linop.oshape for linop in linops)
    fitted = [
        linop
        if linop.ishape == ishape and linop.oshape == oshape
        else linop.resolved(ishape=ishape, oshape=oshape)
        for linop in linops
    ]
    return ishape, oshape, fitted


def common_shape(shapes: Iterable[tuple[NamedDimension, ...]]) -> tuple[NamedDimension, ...]:
    """Return the most general shape that fits all; its unnamed dimensions have numbers."""
    common = max_shape(dict.fromkeys(shapes))
    numbered = iter(unused_names(filter(is_any, common), ()))
    return tuple([next(numbered) if is_any(dim) else dim for dim in common])


def check_operands(owner: str, linops: Sequence[NamedLinop]) -> None:
    """Check that there are operators and nothing else."""
    for linop in linops:
        if not isinstance(linop, NamedLinop):
            advice = f"; unpack it, {owner}(*linops)" if isinstance(linop, (list, tuple)) else ""
            raise TypeError(f"{owner}: operands must be NamedLinops, got {type(linop)}{advice}")
    if not linops:
        raise ValueError(f"{owner}: there must be at least one operator, got none")


def why_not_alike(whole: Composite, dim: NamedDimension | str) -> str | None:
    """Return why ``dim`` differs between the operands that have it, or None."""
    ours = membership(whole.shape, dim)
    sizes = set()
    for linop in whole.linops:
        if dim not in linop.dims and ours is Role.INNER:
            continue
        if (reason := linop.why_opaque(dim)) is not None:
            return f"{linop.signature}: {reason}"
        role = membership(linop.shape, dim)
        if role is not ours:
            return f"{linop.signature}: its role is {role} there and {ours} in the composition"
        sizes.add(linop.size(dim))
    if ours is Role.INNER and len(sizes) > 1:
        return f"it has the sizes {sorted(map(str, sizes))} inside of different operands"
    return None

"""Operators of any shapes with a flat side: dimensions that they do not share are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from nameddim import ELLIPSES, ND, NamedDimension, is_wildcard

from ..._base._dimensions import SIDES, Side, dims_of, unused_names
from ..._base._linop import NamedLinop
from ..._base._roles import Role
from ..._base._sizes import by_dimension
from ..._numbers import is_integer
from ..._operators._picks import Slice
from ..._operators._rearrange import Rearrange
from .._chain import compose


class FlatPart(NamedTuple):
    """An operator with one merged dimension in the place of those that others do not share."""

    linop: NamedLinop
    length: int
    """Length of the merged dimension."""
    layout: Rearrange
    """From the output of the operator alone, or from its input, to the flat side."""


def shared_batch(
    owner: str,
    linops: Sequence[NamedLinop],
    side: Side,
    wanted: Sequence[NamedDimension | str] | None,
) -> list[NamedDimension]:
    """Return the wanted dimensions that are a batch in all operators.

    They are in the order of the first operator's side.
    """
    batches = [batch_of(linop) for linop in linops]
    shared = [dim for dim in dims_of(linops[0].shape, side) if all(dim in each for each in batches)]
    if wanted is None:
        return shared
    if isinstance(wanted, str):
        wanted = [wanted]
    dims = [ND.infer(dim) for dim in wanted]
    for dim in dims:
        for linop, batch in zip(linops, batches, strict=True):
            if dim not in batch:
                raise ValueError(
                    f"{owner}: batch_dims must be batch dimensions of every operand, got {dim}, "
                    f"which is {linop.role(dim) or 'no dimension'} in {linop.signature}"
                )
    return [dim for dim in shared if dim in dims]


def batch_of(linop: NamedLinop) -> set[NamedDimension]:
    """Return the batch dimensions of an operator that keep their names."""
    links = linop.linked_positions()
    dims = {linop.ishape[p] for p, q in links if linop.ishape[p] == linop.oshape[q]}
    return {dim for dim in dims if is_wildcard(dim) or linop.role(dim) is Role.BATCH}


def flat_name(
    owner: str,
    linops: Sequence[NamedLinop],
    side: Side,
    batch: Sequence[NamedDimension],
    given: NamedDimension | str | None,
) -> NamedDimension:
    """Return the name of the merged dimension; it must not be a name in an operand."""
    if given is None:
        dims = {dim for linop in linops for dim in linop.dims}
        return ND("Rows" if side == "output" else "Columns").next_unused(dims)
    if not isinstance(given, str) or is_wildcard(ND.infer(given)):
        raise ValueError(f"{owner}: {side[0]}dim must be a name, got {given!r}")
    dim = ND.infer(given)
    for linop in linops:
        if dim in linop.dims and _renamable(linop, side, batch) != dim:
            raise ValueError(
                f"{owner}: {side[0]}dim must be a name that no operand has, got {dim} for "
                f"{linop.signature}"
            )
    return dim


def flat_operator(
    owner: str,
    linop: NamedLinop,
    side: Side,
    batch: Sequence[NamedDimension],
    dim: NamedDimension,
    sizes: Mapping[str, int] | None,
    shared: Sequence[int | None] = (),
) -> FlatPart:
    """Return the operator whose input or output is its batch dimensions, and one more.

    A single remaining dimension is renamed, so it can be sliced as before. Several are merged, in
    order. ``shared`` has the lengths of the other side that operators know.
    """
    lengths = _lengths(owner, linop, side, batch, by_dimension(owner, sizes), shared)
    linop, lengths = _named_apart(linop, side, lengths, dim)
    names = dims_of(linop.shape, side)
    axes = {name: "..." if name == ELLIPSES else f"axis{at}" for at, name in enumerate(names)}
    before = " ".join(axes.values())
    after = f"{' '.join(axes[name] for name in batch)} ({' '.join(axes[name] for name in lengths)})"
    # Without the length of a single dimension, the layout also fits slices of it.
    of_axes = {axes[name]: n for name, n in lengths.items()} if len(lengths) > 1 else {}
    if (single := _renamable(linop, side, batch)) is not None:
        linop = linop.renamed({single: dim})
    ours, flat = dims_of(linop.shape, side), (*batch, dim)
    layout = Rearrange(before, after, ours, flat, of_axes)
    if ours != flat:
        linop = compose(linop, layout) if side == "output" else compose(layout.H, linop)
    return FlatPart(linop, prod(lengths.values()), layout)


def _named_apart(
    linop: NamedLinop, side: Side, lengths: dict[NamedDimension, int], dim: NamedDimension
) -> tuple[NamedLinop, dict[NamedDimension, int]]:
    """Return the operator with names of their own for dimensions to merge that the other side has.

    A slice of the other side is then not one of the merged dimension, and can be cut all the same.
    """
    dims, opposite = (dims_of(linop.shape, each) for each in (side, *{*SIDES} - {side}))
    kept = {name: length for name, length in lengths.items() if name in opposite and length}
    if not kept:
        return linop, lengths
    fresh = (dim,) if len(lengths) == 1 else unused_names(kept, {*linop.dims, dim})
    pieces = {str(name): slice(None) for name in kept}
    whole = Slice(pieces, tuple(kept.values()), shape=dims, to=fresh)
    apart = dict(zip(kept, fresh, strict=True))
    linop = compose(linop, whole) if side == "output" else compose(whole.H, linop)
    return linop, {apart.get(name, name): length for name, length in lengths.items()}


def _renamable(
    linop: NamedLinop, side: Side, batch: Sequence[NamedDimension]
) -> NamedDimension | None:
    """Return the only dimension of a side beside the batch, if the other side lacks it."""
    dims, opposite = (dims_of(linop.shape, each) for each in (side, *{*SIDES} - {side}))
    rest = [name for name in dims if name not in batch]
    is_alone = len(rest) == 1 and rest[0] not in opposite and not is_wildcard(rest[0])
    return rest[0] if is_alone else None


def _lengths(
    owner: str,
    linop: NamedLinop,
    side: Side,
    batch: Sequence[NamedDimension],
    given: Mapping[NamedDimension, int],
    shared: Sequence[int | None],
) -> dict[NamedDimension, int]:
    """Return the lengths of the dimensions to merge."""
    lengths: dict[NamedDimension, int] = {}
    names = dims_of(linop.shape, side)
    if len({*names}) < len(names):
        raise ValueError(
            f"{owner}: the dimensions of the {side} must have names, got {linop.signature}"
        )
    across = {o: i for i, o in linop.linked_positions()}
    opposite = linop.ishape if side == "output" else linop.oshape
    if side == "input":
        across = {i: o for o, i in across.items()}
    for at, (name, n) in enumerate(zip(names, linop.sizes(side), strict=True)):
        length = shared[across[at]] if n is None and shared and at in across else n
        if name in batch:
            continue
        if name == ELLIPSES:
            raise ValueError(
                f"{owner}: the '...' of {linop.signature} must be a batch of every operand, got "
                f"one that has to be merged with others; name its dimensions, as by "
                f"A.resolved(ishape=...)"
            )
        other = opposite[across[at]] if at in across else name
        size = given.get(name, given.get(other) if length is None else length)
        if not is_integer(size, 0) or length not in (None, size):
            rule = (
                "known or given in sizes, as an integer of at least 0" if length is None else length
            )
            raise ValueError(
                f"{owner}: the size of {name} in the {side} of {linop.signature} must be {rule}, "
                f"got {size}"
            )
        lengths[name] = int(size)
    return lengths

"""The share of this rank: of an operator that all have, that one rank has, or that is loaded."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from linops_core import NamedLinop, Role, SplitError, Window, Zero, tile_of
from linops_split import tile_grid
from linops_split.execution import read_by, reading
from nameddim import NamedDimension, NamedShape

from ._ranks import Ranks
from ._sharding import Cut, Sharding

Sizes: TypeAlias = Mapping[NamedDimension, int]
Loader: TypeAlias = Callable[[Window], NamedLinop]
"""Makes the part of an operator that is between slices."""


@dataclass(frozen=True)
class Share:
    """What this rank computes."""

    tile: NamedLinop
    shape: NamedShape
    sharding: Sharding
    source: NamedLinop
    """What holds the weights that are trained."""
    is_endomorphism: bool


def shared(
    linop: NamedLinop, ranks: Ranks, placement: Mapping[NamedDimension, str], sizes: Sizes
) -> Share:
    """Return the share of an operator that all ranks have: views of its weights."""
    sharding = _sharding_of(linop, ranks, placement, sizes)
    return Share(_part(linop, sharding), linop.shape, sharding, linop, linop.is_endomorphism)


def loaded(
    loader: Loader, ranks: Ranks, placement: Mapping[NamedDimension, str], sizes: Sizes, owner: str
) -> Share:
    """Return the share that a function makes; it is not called for one that is empty."""
    for dim in placement:
        if dim not in sizes:
            raise SplitError(
                f"{owner}: the size of {dim} must be given for a function that makes shares, as in "
                f"sizes={{'{dim}': 8}}"
            )
    sharding = _sharded(
        ranks, {dim: Cut(name, ranks.size((name,)), sizes[dim]) for dim, name in placement.items()}
    )
    ranks.prepare(ranks.names)

    def load() -> NamedLinop | None:
        if sharding.is_empty:
            return None
        tile = loader(sharding.window)
        if not isinstance(tile, NamedLinop):
            raise TypeError(f"{owner}: a function must return a NamedLinop, got {type(tile)}")
        _refuse_training(tile, owner)
        for dim, length in sharding.lengths.items():
            if tile.role(dim) is Role.OPAQUE:
                reason = tile.why_opaque(dim)
                raise SplitError(f"{tile.signature}: {dim} cannot be split: {reason}")
            if tile.size(dim) not in (None, length):
                raise SplitError(
                    f"{tile.signature}: {dim} must have size {length} in the share, "
                    f"got {tile.size(dim)}"
                )
        return tile

    tile = ranks.attempted(load, owner, "the share")
    zero = None if tile is None else Zero.like(tile)
    facts = None if tile is None else (tile.shape.ishape, tile.shape.oshape, tile.is_endomorphism)
    told = ranks.told((facts, zero), owner, "the share")
    found = [(said, each) for said, each in told if said is not None]
    ranks.check_same(
        [found[0][0] if said is None else said for said, _ in told], owner, "the shape"
    )
    (ishape, oshape, is_endomorphism), zero = found[0]
    if tile is None:
        tile = _idle_like(zero, sharding, owner)
    shape = NamedShape(ishape, oshape)
    return Share(tile, shape, sharding, tile, bool(is_endomorphism))


def scattered(
    linop: NamedLinop | None,
    source: int,
    ranks: Ranks,
    placement: Mapping[NamedDimension, str],
    sizes: Sizes,
    owner: str,
) -> Share:
    """Return the share of an operator that one rank has, which sends each tensor of each share."""
    ranks.prepare(ranks.names)
    members, is_source = ranks.numbers, ranks.rank == source
    parts: list[NamedLinop] = []

    def cut() -> tuple[bytes, list[bytes]]:
        if not isinstance(linop, NamedLinop):
            raise TypeError(
                f"{owner}: linop must be a NamedLinop on rank {source}, got {type(linop)}"
            )
        _refuse_training(linop, owner)
        sharding = _sharding_of(linop, ranks, placement, sizes)
        parts.extend(_part(linop, replace(sharding, at=at)) for at in ranks.coordinates())
        whole = linop.shape.ishape, linop.shape.oshape, sharding.cuts, linop.is_endomorphism
        return pickle.dumps(whole), [pickle.dumps(_emptied(part)) for part in parts]

    found = ranks.attempted(
        lambda: cut() if is_source else None, owner, f"the shares of rank {source}"
    )
    told = ranks.told(found, owner, "the shares")
    message = told[members.index(source)]
    assert message is not None
    ishape, oshape, cuts, is_endomorphism = pickle.loads(message[0])
    number = members.index(ranks.rank)
    own: list[Tensor] = []
    device = ranks.mesh.device_type if ranks.mesh is not None else "cpu"
    with ranks.step(owner, f"the shares of rank {source}", ranks.names):
        for other, structure in zip(members, message[1], strict=True):
            if is_source:
                tensors = _distinct(parts[members.index(other)])
                if other == source:
                    own = [tensor.detach().clone() for tensor in tensors]
                else:
                    for tensor in tensors:
                        dist.send(_flat(tensor.detach().contiguous()), other)
            elif other == ranks.rank:
                for like in _distinct(pickle.loads(structure)):
                    tensor = torch.empty(like.shape, dtype=like.dtype, device=device)
                    dist.recv(_flat(tensor), source)
                    own.append(tensor)
    tile = _filled(pickle.loads(message[1][number]), own)
    shape = NamedShape(ishape, oshape)
    return Share(tile, shape, _sharded(ranks, cuts), tile, is_endomorphism)


def _flat(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _refuse_training(linop: NamedLinop, owner: str) -> None:
    if any(tensor.requires_grad for tensor in read_by(linop)):
        raise NotImplementedError(
            f"{owner}: weights of shares that are sent or loaded must not require gradients, got "
            f"{linop.signature}; give all ranks the operator, or detach its weights"
        )


def _key(tensor: Tensor) -> tuple[object, ...]:
    where = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return (*where, tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg())


def _distinct(linop: NamedLinop) -> list[Tensor]:
    """Return the tensors that an operator reads, each once."""
    return [*{_key(tensor): tensor for tensor in read_by(linop)}.values()]


def _emptied(linop: NamedLinop) -> NamedLinop:
    """Return the operator with tensors that have no elements in memory."""
    made: dict[object, Tensor] = {}

    def empty(tensor: Tensor) -> Tensor:
        like = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        return made.setdefault(_key(tensor), like)

    return linop.with_weights(empty)


def _filled(linop: NamedLinop, tensors: Sequence[Tensor]) -> NamedLinop:
    """Return the operator with these for its distinct tensors."""
    number = {_key(tensor): place for place, tensor in enumerate(_distinct(linop))}
    return reading(linop, [tensors[number[_key(tensor)]] for tensor in read_by(linop)])


def _sharded(ranks: Ranks, cuts: Mapping[NamedDimension, Cut]) -> Sharding:
    return Sharding(ranks.sizes, ranks.at, cuts)


def _sharding_of(
    linop: NamedLinop, ranks: Ranks, placement: Mapping[NamedDimension, str], sizes: Sizes
) -> Sharding:
    """Return the cuts; refused where the operator cannot be cut so, before anything is sent."""
    lengths = {dim: _length(linop, dim, sizes) for dim in placement}
    # One tile for each: what is wrong with a dimension is found without making the table.
    tile_grid(linop, {dim: length or 1 for dim, length in lengths.items()}, sizes=sizes)
    cuts = {dim: Cut(name, ranks.size((name,)), lengths[dim]) for dim, name in placement.items()}
    return _sharded(ranks, cuts)


def _length(linop: NamedLinop, dim: NamedDimension, sizes: Sizes) -> int:
    known = linop.size(dim) if linop.role(dim) is not None else None
    return int(known or sizes.get(dim, 0))


def _part(linop: NamedLinop, sharding: Sharding) -> NamedLinop:
    """Return the share of a rank, cut along one dimension after the other."""
    # Also where this rank has work: all are to refuse it with the same words.
    zero = Zero.like(linop) if sharding.leaves_some_idle else None
    idle = _idle_like(zero, sharding, linop.signature) if sharding.leaves_some_idle else linop
    if sharding.is_empty:
        return idle
    for dim, piece in sharding.window.items():
        if piece.stop - piece.start < sharding.cuts[dim].length:
            linop = tile_of(linop, {dim: piece})
    return linop


def _idle_like(zero: Zero | None, sharding: Sharding, owner: str) -> NamedLinop:
    """Return what stands for the share of a rank without work."""
    if zero is None:
        raise SplitError(
            f"{owner}: each rank must have work where wildcards of input and output are not the "
            f"same dimensions, got {dict(sharding.mesh)} ranks for lengths "
            f"{ ({str(dim): cut.length for dim, cut in sharding.cuts.items()}) }"
        )
    return zero._with_lengths(sharding.lengths)

"""The share of this rank, from an operator that all ranks or one rank have, or loaded."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import torch
import torch.distributed as dist
from torch import Tensor

from linops_core import NamedLinop, Role, SplitError, Window, Zero
from linops_core.siblings import real_parts, tile_of
from linops_split import tile_grid
from linops_split.siblings import tensors_read_by, with_tensors_read
from nameddim import NamedDimension, NamedShape

from .._ranks._transport import Transport
from ._route import Cuts, LocalWork
from ._sharding import Cut, Pieces, Sharding

Sizes: TypeAlias = Mapping[NamedDimension, int]
Loader: TypeAlias = Callable[[Window], NamedLinop]
"""Makes the tile of an operator between slices."""


@dataclass(frozen=True)
class Share:
    """The share of an operator that this rank computes."""

    tile: NamedLinop
    whole: NamedLinop
    """The operator of all ranks; of shares that were loaded or sent one like it, without weights.
    """
    structure: NamedLinop
    """An operator with the same names of dimensions on all ranks, also inside."""
    sharding: Sharding
    source: NamedLinop
    """The module with the weights to train."""
    has_own_weights: bool = False
    """Whether the weights belong to this rank only."""


def share_by_views(work: LocalWork, ranks: Transport, sizes: Sizes) -> Share:
    """Return the share of an operator that all ranks have, with views of its weights."""
    linop = work.linop
    sharding = _sharding_of(linop, ranks, work, sizes)
    return Share(_part(linop, sharding), linop, linop, sharding, linop)


class SpacesOfFunction(Zero):
    """The spaces of an operator made by a function; they fit the same neighbours as it."""

    # Not a submodule, because its weights have no memory.
    _like: tuple[NamedLinop, ...] = ()

    @property
    def name(self) -> str:
        """The name in messages."""
        return "the operator of a function"

    @property
    def structure(self) -> NamedLinop:
        """The operator of one rank, with weights without memory."""
        return self._like[0] if self._like else self

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the spaces for an input with these dimensions; see :class:`NamedLinop`."""
        fitted = self._like[0].fitted_to(dims) if self._like else None
        if fitted is None:
            return None
        other = cast(SpacesOfFunction, self.resolved_to(NamedShape(fitted.ishape, fitted.oshape)))
        other._like = (fitted,)
        return other


@dataclass(frozen=True)
class LoadedTile:
    """The result of a function that makes shares."""

    tile: NamedLinop | None
    """The tile; None if this rank has no work."""
    whole: NamedLinop
    """An operator with the shape of the whole, without weights."""
    placed: frozenset[NamedDimension]
    """The cut dimensions of the operator."""

    def share(self, ranks: Transport, cuts: Cuts, sizes: Sizes, whole: NamedLinop) -> Share:
        """Return the share of this rank; in ``whole`` the wildcards are resolved."""
        sharding = sharding_for(ranks, cuts, sizes)
        if self.tile is None:
            tile = _idle_like(cast(Zero, whole), sharding, whole.signature)
        else:
            tile = self.tile.fitted_to(whole.ishape) or self.tile
            tile = tile.resolved(ishape=whole.ishape, oshape=whole.oshape)
        structure = whole.structure if isinstance(whole, SpacesOfFunction) else whole
        return Share(tile, whole, structure, sharding, tile, has_own_weights=True)


def load_tile(
    loader: Loader, ranks: Transport, placement: Cuts, sizes: Sizes, owner: str, *, is_all: bool
) -> LoadedTile:
    """Return the result of a function for the share of this rank.

    ``is_all`` says that the function makes the whole operator. The function is not called for a
    share that is empty along a dimension of its operator. Ranks with such shares learn the
    dimensions from others.
    """
    for dim in placement:
        if dim not in sizes:
            raise SplitError(
                f"{owner}: the size of {dim} must be given for a function that makes shares, as in "
                f"sizes={{'{dim}': 8}}"
            )
    sharding = sharding_for(ranks, placement, sizes)

    def load() -> NamedLinop:
        tile = loader(sharding.window)
        if not isinstance(tile, NamedLinop):
            raise TypeError(f"{owner}: a function must return a NamedLinop, got {type(tile)}")
        for dim, length in sharding.lengths.items():
            if tile.role(dim) is Role.OPAQUE:
                reason = tile.why_opaque(dim)
                raise SplitError(
                    f"{tile.signature}: {dim} cannot be split: {reason}; give a sequence of "
                    "functions and operators, in which an FFT across ranks is an operator"
                )
            if tile.size(dim) not in (None, length):
                raise SplitError(
                    f"{tile.signature}: {dim} must have size {length} in the share, "
                    f"got {tile.size(dim)}"
                )
        return tile

    what, is_full = "the share", not sharding.is_empty
    tile = ranks.attempted(lambda: load() if is_full else None, owner, what)
    facts, spaces = None, None
    if tile is not None:
        cut = [dim for dim in placement if is_all or dim in tile.dims]
        facts = tile.shape.ishape, tile.shape.oshape, tile.is_endomorphism, sorted(cut, key=str)
        spaces = SpacesOfFunction.like(tile)
        if isinstance(spaces, SpacesOfFunction):
            spaces._like = (_without_memory(tile),)
    gathered = ranks.all_gather((facts, _pickled(spaces)), owner, what)
    loaded = [(facts, message) for facts, message in gathered if facts is not None]
    ranks.check_same(
        [loaded[0][0] if facts is None else facts for facts, _ in gathered], owner, "the shape"
    )
    (ishape, oshape, is_endomorphism, placed), message = loaded[0]
    spaces = pickle.loads(message)
    if sharding.leaves_some_idle:
        has_work = all(sharding.lengths[dim] for dim in placed)
        tile = ranks.attempted(lambda: tile or (load() if has_work else None), owner, what)
        if spaces is None:
            _idle_like(None, sharding, owner)
    lengths = {dim: sizes[dim] for dim in placed}
    whole = SpacesOfFunction(ishape, oshape) if spaces is None else spaces._with_lengths(lengths)
    return LoadedTile(
        tile, whole.as_endomorphism() if is_endomorphism else whole, frozenset(placed)
    )


def _pickled(spaces: Zero | None) -> bytes:
    try:
        return pickle.dumps(spaces)
    except Exception:  # it has a function that cannot be pickled
        if isinstance(spaces, SpacesOfFunction):
            spaces._like = ()
        return pickle.dumps(spaces)


def structure_of(linop: object, source: int, ranks: Transport, owner: str) -> NamedLinop:
    """Return on all ranks the operator that one rank has, with weights without memory."""

    def pickled_by_source() -> bytes | None:
        if ranks.mesh.rank != source:
            return None
        if not isinstance(linop, NamedLinop):
            raise TypeError(
                f"{owner}: linop must be a NamedLinop on rank {source}, got {type(linop)}"
            )
        return pickle.dumps(_without_memory(linop))

    what = f"the operator of rank {source}"
    pickled = ranks.all_gather(ranks.attempted(pickled_by_source, owner, what), owner, what)
    message = pickled[ranks.mesh.numbers.index(source)]
    assert message is not None
    whole: NamedLinop = pickle.loads(message)
    return whole


def scattered_share(
    linop: NamedLinop | None,
    work: LocalWork,
    source: int,
    ranks: Transport,
    sizes: Sizes,
    owner: str,
) -> Share:
    """Return the share of an operator that one rank has; it sends the tensors of each share.

    All ranks have ``work`` with the result of :func:`structure_of`.
    """
    whole, members, is_source = work.linop, ranks.mesh.numbers, ranks.mesh.rank == source
    sharding = _sharding_of(whole, ranks, work, sizes)
    parts: list[NamedLinop] = []

    def cut() -> list[bytes] | None:
        if linop is None:
            return None
        parts.extend(_part(linop, replace(sharding, at=at)) for at in ranks.mesh.coordinates())
        return [pickle.dumps(_without_memory(part)) for part in parts]

    what = f"the shares of rank {source}"
    gathered = ranks.all_gather(ranks.attempted(cut, owner, what), owner, "the shares")
    structures = gathered[members.index(source)]
    assert structures is not None
    made: list[Tensor] = []
    n_bytes = max((t.nbytes for part in parts for t in _distinct(part)), default=0)
    room = torch.empty(n_bytes, dtype=torch.uint8)
    device = ranks.mesh.device_mesh.device_type if ranks.mesh.device_mesh is not None else "cpu"
    with ranks.step(owner, what, ranks.mesh.names):
        for other, structure in zip(members, structures, strict=True):
            if is_source:
                tensors = _distinct(parts[members.index(other)])
                if other == source:
                    made = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
                else:
                    for tensor in tensors:
                        packed = tensor.detach()
                        if not packed.is_contiguous() or packed.is_conj():
                            # Into the same memory each time, so that there is one at a time.
                            if room.device != packed.device:
                                room = room.to(packed.device)
                            target = room[: packed.nbytes].view(packed.dtype)
                            packed = target.view(packed.shape).copy_(packed)
                        dist.send(real_parts(packed), other)
            elif other == ranks.mesh.rank:
                for like in _distinct(pickle.loads(structure)):
                    tensor = torch.empty(like.shape, dtype=like.dtype, device=device)
                    dist.recv(real_parts(tensor), source)
                    made.append(tensor.requires_grad_(like.requires_grad))
    tile = _with_tensors(pickle.loads(structures[members.index(ranks.mesh.rank)]), made)
    return Share(tile, whole, whole, sharding, tile, has_own_weights=True)


def _key(tensor: Tensor) -> tuple[object, ...]:
    where = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return (*where, tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg())


def _distinct(linop: NamedLinop) -> list[Tensor]:
    """Return the tensors that an operator reads, each once."""
    return [*{_key(tensor): tensor for tensor in tensors_read_by(linop)}.values()]


def _without_memory(linop: NamedLinop) -> NamedLinop:
    """Return the operator with tensors without memory."""
    made: dict[object, Tensor] = {}

    def empty(tensor: Tensor) -> Tensor:
        like = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        like.requires_grad_(tensor.requires_grad)
        return made.setdefault(_key(tensor), like)

    return linop.with_weights(empty)


def _with_tensors(linop: NamedLinop, tensors: Sequence[Tensor]) -> NamedLinop:
    """Return the operator with other tensors for its distinct ones."""
    number = {_key(tensor): n for n, tensor in enumerate(_distinct(linop))}
    return with_tensors_read(
        linop, [tensors[number[_key(tensor)]] for tensor in tensors_read_by(linop)]
    )


def sharding_for(
    ranks: Transport,
    cuts: Cuts,
    lengths: Sizes,
    reads: Mapping[NamedDimension, Pieces] | None = None,
) -> Sharding:
    """Return the sharding for cut dimensions of these lengths."""
    reads = reads or {}
    own_cuts = {
        dim: Cut(name, ranks.mesh.size((name,)), lengths[dim], reads.get(dim))
        for dim, name in cuts.items()
    }
    return Sharding(ranks.mesh.sizes, ranks.mesh.at, own_cuts)


def _sharding_of(linop: NamedLinop, ranks: Transport, work: LocalWork, sizes: Sizes) -> Sharding:
    """Return the cuts; raise an error before anything is sent if they are impossible."""
    lengths = {dim: _length(linop, dim, sizes) for dim in work.cuts}
    # One tile of each dimension finds errors without making the table.
    tile_grid(linop, {dim: length or 1 for dim, length in lengths.items()}, sizes=sizes)
    return sharding_for(ranks, work.cuts, lengths, work.reads)


def _length(linop: NamedLinop, dim: NamedDimension, sizes: Sizes) -> int:
    length = linop.size(dim) if linop.role(dim) is not None else None
    return int(length or sizes.get(dim, 0))


def _part(linop: NamedLinop, sharding: Sharding) -> NamedLinop:
    """Return the share of a rank, cut along one dimension after the other."""
    # Also if this rank has work: all ranks must raise the same error.
    zero = Zero.like(linop) if sharding.leaves_some_idle else None
    idle = _idle_like(zero, sharding, linop.signature) if sharding.leaves_some_idle else linop
    if sharding.is_empty:
        return idle
    for dim, piece in sharding.window.items():
        if piece.stop - piece.start < sharding.cuts[dim].length:
            linop = tile_of(linop, {dim: piece})
    return linop


def _idle_like(zero: Zero | None, sharding: Sharding, owner: str) -> NamedLinop:
    """Return the operator of a rank without work."""
    if zero is None:
        raise SplitError(
            f"{owner}: each rank must have work, because the wildcards of input and output are "
            f"different dimensions, got {dict(sharding.mesh)} ranks for lengths "
            f"{ ({str(dim): cut.length for dim, cut in sharding.cuts.items()}) }"
        )
    return zero._with_lengths(sharding.lengths)

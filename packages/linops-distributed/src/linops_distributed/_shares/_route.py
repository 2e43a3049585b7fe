"""The steps of an operator over ranks: local parts, and exchanges between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from linops_core import FFT, Chain, GridOperator, Identity, NamedLinop, SplitError
from linops_core.siblings import acts_as, factor_along, tile_of
from nameddim import NamedDimension, is_wildcard

from ._sharding import Cut, Pieces

Dims: TypeAlias = tuple[NamedDimension, ...]
Cuts: TypeAlias = Mapping[NamedDimension, str]
"""Cut dimensions, each with its dimension of the mesh."""

_NAME = "distribute_linop"


@dataclass(frozen=True)
class LocalWork:
    """Operators that each rank applies to its share, one after the other."""

    linops: tuple[NamedLinop, ...]
    cuts: Cuts
    source: int | None = None
    """Number of the function that made it; parts of different functions are not joined."""
    reads: Mapping[NamedDimension, Pieces] = field(default_factory=dict)
    """For dimensions of the input with halos: the slice that each rank reads."""

    @property
    def linop(self) -> NamedLinop:
        """The composition of the operators."""
        return self.linops[0] if len(self.linops) == 1 else Chain(*self.linops)


@dataclass(frozen=True)
class Move:
    """An exchange after which a vector is cut along another dimension, or ranks have halos."""

    names: Dims
    before: Cuts
    after: Cuts
    reads_before: Mapping[NamedDimension, Pieces] = field(default_factory=dict)
    """The slices with halos that ranks have already."""
    reads_after: Mapping[NamedDimension, Pieces] = field(default_factory=dict)
    """The slices with halos that ranks have afterwards."""


Steps: TypeAlias = list[LocalWork | Move]


def steps_of(
    works: Sequence[LocalWork],
    placement: Cuts,
    lengths: Mapping[NamedDimension, int],
    mesh: Mapping[str, int],
    given: Cuts,
) -> Steps:
    """Return the steps of a composition in order, with the fewest exchanges.

    Parameters
    ----------
    works : sequence of Work
        The operators, one each, with their placed dimensions.
    placement : mapping of dimension to dimension of the mesh
        As :func:`completed` returns it.
    lengths : mapping of dimension to int
        Known lengths.
    mesh : mapping of str to int
        Number of ranks along each dimension.
    given : mapping of dimension to dimension of the mesh
        The placement of the user, for errors.

    Raises
    ------
    ValueError
        If two dimensions of a vector, or of an operator, are on one dimension of the mesh.
    SplitError
        If a transform needs a whole dimension, and no other dimension can be cut meanwhile.
    """
    result: Steps = []
    for work in works:
        (linop,) = work.linops
        checked_cuts(linop.ishape, placement)
        checked_cuts(linop.oshape, placement)
        is_cut = any(dim in placement for pair in axis_pairs(linop) for dim in pair)
        steps: Iterable[LocalWork | Move] = [work]
        if is_cut:
            steps = _route(linop, placement, lengths, given)
        elif pairs := _read_across(work):
            steps = _with_halos(work, pairs, lengths, mesh)
        else:
            checked_cuts(work.cuts, placement)
        for step in steps:
            before = result[-1] if result else None
            together = _together(before, step)
            if together is None:
                result.append(step)
            else:
                result[-1] = together
    return result


def axis_pairs(linop: NamedLinop) -> list[tuple[NamedDimension, NamedDimension]]:
    """Return the output name of each grid dimension, if the operator acts along each separately."""
    if not isinstance(linop, GridOperator) or factor_along(linop, (), linop.ishape) is None:
        return []
    pairs = [(idim, odim) for idim, odim in linop.axis_dims if idim and odim]
    return [(odim, idim) for idim, odim in pairs] if linop.is_adjoint else pairs


def completed(
    linops: Sequence[NamedLinop], placement: Cuts, *, is_endomorphism: bool
) -> dict[NamedDimension, str]:
    """Return the placement with a dimension for the other grid of each transform.

    It is the first free one that is not cut in the placed grid. If an operator maps a space to
    itself, its output is cut like its input.
    """
    result, n_before = dict(placement), -1
    of_grids = {dim for linop in linops for pair in axis_pairs(linop) for dim in pair}
    while n_before < len(result):
        n_before = len(result)
        ends = linops[0].ishape, linops[-1].oshape
        if is_endomorphism and len(ends[0]) == len(ends[1]):
            for pair in zip(*ends, strict=True):
                placed = [result[dim] for dim in pair if dim in result]
                if placed and of_grids.issuperset(pair):
                    result.update(dict.fromkeys(pair, placed[0]))
        for linop in linops:
            pairs = axis_pairs(linop)
            _complete(result, pairs, linop.oshape)
            _complete(result, [(odim, idim) for idim, odim in pairs], linop.ishape)
    return result


def _complete(
    placement: dict[NamedDimension, str],
    pairs: Sequence[tuple[NamedDimension, NamedDimension]],
    names: Dims,
) -> None:
    """Place a dimension of one grid for each placed dimension of the other grid."""
    for idim, odim in pairs:
        if idim not in placement:
            continue
        taken = {placement[dim] for dim in names if dim in placement}
        others = [other for _, other in pairs if other != odim]
        free = [dim for dim in (*others, odim) if dim not in placement]
        if placement[idim] not in taken and free:
            placement[free[0]] = placement[idim]


def checked_cuts(dims: Iterable[NamedDimension], placement: Cuts) -> dict[NamedDimension, str]:
    """Return the placed ones of some dimensions; they must be on different mesh dimensions."""
    cuts = {dim: placement[dim] for dim in dims if dim in placement}
    if len({*cuts.values()}) < len(cuts):
        raise ValueError(
            f"{_NAME}: each dimension of a vector must have its own dimension of the mesh, got "
            f"{ ({str(dim): name for dim, name in cuts.items()}) }; two dimensions may share "
            "one if no vector has both, as in the two grids of an FFT"
        )
    return cuts


def _read_across(work: LocalWork) -> list[tuple[NamedDimension, NamedDimension]]:
    """Return the pairs of input and output dimensions that are cut along the same mesh dimension.

    None if an operator is made of shares, or its dimensions are not such pairs.
    """
    (linop,) = work.linops
    idims = [dim for dim in work.cuts if dim in linop.ishape and dim not in linop.oshape]
    odims = [dim for dim in work.cuts if dim in linop.oshape and dim not in linop.ishape]
    pairs = [(i, o) for i in idims for o in odims if work.cuts[i] == work.cuts[o]]
    is_all = len({*work.cuts.values()}) + len(pairs) == len(work.cuts)
    return pairs if is_all and work.source is None else []


def _with_halos(
    work: LocalWork,
    pairs: Sequence[tuple[NamedDimension, NamedDimension]],
    lengths: Mapping[NamedDimension, int],
    mesh: Mapping[str, int],
) -> Iterator[LocalWork | Move]:
    """Yield the exchanges of halos that an operator needs, and then the operator."""
    (linop,) = work.linops
    cuts = {dim: name for dim, name in work.cuts.items() if dim in linop.ishape}
    before: dict[NamedDimension, Pieces] = {}
    for idim, odim in pairs:
        for dim in (idim, odim):
            if dim not in lengths:
                raise SplitError(
                    f"{linop.signature}: the size of {dim} must be known; give it, as in "
                    f"sizes={{'{dim}': 8}}"
                )
        cut = Cut(work.cuts[odim], mesh[work.cuts[odim]], lengths[odim])
        reads = tuple(_read(linop, idim, odim, piece, lengths[idim]) for piece in cut.pieces)
        after = {**before, idim: reads}
        yield Move(linop.ishape, cuts, cuts, before, after)
        before = after
    # The cut of the output determines what is read of the input.
    first = {odim: work.cuts[odim] for _, odim in pairs}
    yield replace(work, cuts={**first, **work.cuts}, reads=before)


def _read(
    linop: NamedLinop, idim: NamedDimension, odim: NamedDimension, piece: slice, length: int
) -> tuple[int, int]:
    """Return the slice of an input dimension that a slice of the output reads."""
    if piece.start == piece.stop:
        return 0, 0
    read = tile_of(linop, {odim: piece}).support(idim)
    if read is None:
        return 0, length
    start = min(read.start, length - 1)
    return start, max(start + 1, read.stop)  # a rank that reads nothing gets one element


def _together(before: LocalWork | Move | None, step: LocalWork | Move) -> LocalWork | None:
    """Return two steps as one if there is no communication between them."""
    if not isinstance(before, LocalWork) or not isinstance(step, LocalWork):
        return None
    cuts = {**before.cuts, **step.cuts}
    if (
        before.source != step.source
        or before.source is not None
        or len({*cuts.values()}) < len(cuts)
    ):
        return None
    return replace(before, linops=(*before.linops, *step.linops), cuts=cuts)


def _route(
    linop: NamedLinop, placement: Cuts, lengths: Mapping[NamedDimension, int], given: Cuts
) -> list[LocalWork | Move]:
    """Return the steps of a transform: each dimension is transformed when it is whole.

    A search for the shortest path from the cuts of the input to the cuts of the output. Its nodes
    are the vectors between, with their transformed and cut dimensions.
    """
    become = dict(axis_pairs(linop))
    start, goal = (checked_cuts(names, placement) for names in (linop.ishape, linop.oshape))
    for dim in [*start, *goal]:
        if dim not in lengths:
            raise SplitError(
                f"{linop.signature}: the size of {dim} must be known; give it, as in "
                f"sizes={{'{dim}': 8}}"
            )

    def names_after(done: Iterable[NamedDimension]) -> Dims:
        return tuple([become[dim] if dim in done else dim for dim in linop.ishape])

    ways = deque([(frozenset[NamedDimension](), start, list[LocalWork | Move]())])
    seen = set[object]()
    while ways:
        done, cuts, way = ways.popleft()
        ready = become.keys() - done - cuts.keys()
        if ready:
            part = factor_along(linop, ready, names_after(done))
            assert part is not None
            way, done = [*way, LocalWork((part,), cuts)], done | ready
        if len(done) == len(become) and cuts == goal:
            return way
        state = done, frozenset(cuts.items())
        if state not in seen:
            seen.add(state)
            names = names_after(done)
            for after in _moved(names, cuts, goal, lengths):
                ways.append((done, after, [*way, Move(names, cuts, after)]))
    cut = [dim for dim in [*start, *goal] if dim in become or dim in become.values()]
    dim = next((dim for dim in cut if dim in given), cut[0])
    raise SplitError(
        f"{linop.signature}: {dim} cannot be split: {linop.why_opaque(dim)}, and no other "
        f"dimension of known size can be cut along '{placement[dim]}' while {dim} is whole; give "
        f"sizes=, or a placement other than { ({str(d): name for d, name in given.items()}) }"
    )


def _moved(
    names: Dims, cuts: Cuts, goal: Cuts, lengths: Mapping[NamedDimension, int]
) -> Iterator[dict[NamedDimension, str]]:
    """Yield all cuts after one exchange: those of the goal first, then of long dimensions."""
    whole = [dim for dim in names if dim in lengths and dim not in cuts]
    for dim, mesh_dim in cuts.items():
        rest = {other: name for other, name in cuts.items() if other != dim}
        for new in sorted(whole, key=lambda d: (goal.get(d) != mesh_dim, -lengths[d])):
            yield {**rest, new: mesh_dim}


def gain_of(linops: Sequence[NamedLinop], lengths: Mapping[NamedDimension, int]) -> float | None:
    """Return c if the normal of a chain of transforms is known to be c times the identity.

    It is the same for the adjoint.
    """
    gain = 1.0
    for linop in linops:
        grid = [idim for idim, _ in axis_pairs(linop)]
        if not grid:
            return None
        if not acts_as(linop.N, Identity):
            if not acts_as(linop, FFT) or not all(dim in lengths for dim in grid):
                return None
            gain *= prod(lengths[dim] for dim in grid) ** (1 if linop.norm == "backward" else -1)
    return gain


def known_lengths(
    linops: Sequence[NamedLinop], sizes: Mapping[NamedDimension, int]
) -> dict[NamedDimension, int]:
    """Return the lengths that operators know, or that follow from the given ones.

    Names with several lengths along the chain are left out.
    """
    lengths: dict[NamedDimension, set[int]] = {}
    for linop in linops:
        inside = linop.dims - {*linop.ishape, *linop.oshape}
        for dim, length in (
            *zip(linop.ishape, linop.sizes("input"), strict=True),
            *zip(linop.oshape, linop.sizes("output"), strict=True),
            *((dim, linop.size(dim)) for dim in inside),
        ):
            if length is not None and not is_wildcard(dim):
                lengths.setdefault(dim, set()).add(length)
    result = {**sizes, **{dim: min(seen) for dim, seen in lengths.items() if len(seen) == 1}}
    pairs = [pair for linop in linops for pair in axis_pairs(linop)]
    for _ in linops:
        for idim, odim in pairs:
            for one, other in ((idim, odim), (odim, idim)):
                if one in result and result.setdefault(other, result[one]) != result[one]:
                    raise SplitError(
                        f"{_NAME}: {one} and {other} must have the same size, as the two grids of "
                        f"an FFT have, got {result[one]} and {result[other]}"
                    )
    return {dim: n for dim, n in result.items() if len(lengths.get(dim, ())) < 2}

"""In which steps an operator is computed: parts that each rank applies, and exchanges between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from linops_core import FFT, Chain, GridOperator, Identity, NamedLinop, SplitError, tile_of
from nameddim import NamedDimension, is_wildcard

from ._sharding import Cut, Pieces

Dims: TypeAlias = tuple[NamedDimension, ...]
Cuts: TypeAlias = Mapping[NamedDimension, str]
"""Dimensions that are cut, each with the dimension of the mesh."""

_NAME = "distribute_linop"


@dataclass(frozen=True)
class Work:
    """Operators that each rank applies to its share, one after the other."""

    linops: tuple[NamedLinop, ...]
    cuts: Cuts
    source: int | None = None
    """The number of what made it, where it must not be put together with others."""
    reads: Mapping[NamedDimension, Pieces] = field(default_factory=dict)
    """Of dimensions of the input of which ranks read more than their shares: what each reads."""

    @property
    def linop(self) -> NamedLinop:
        """Their composition."""
        return self.linops[0] if len(self.linops) == 1 else Chain(*self.linops)


@dataclass(frozen=True)
class Move:
    """An exchange: a vector is cut along another dimension afterwards."""

    names: Dims
    before: Cuts
    after: Cuts

    @property
    def mesh_dim(self) -> str:
        """The dimension of the mesh along which ranks send to each other."""
        (whole,) = self.before.keys() - self.after.keys()
        return self.before[whole]


@dataclass(frozen=True)
class Halo:
    """An exchange: a rank has, of one dimension, what it reads instead of its share."""

    names: Dims
    cuts: Cuts
    dim: NamedDimension
    before: Mapping[NamedDimension, Pieces]
    after: Mapping[NamedDimension, Pieces]

    @property
    def mesh_dim(self) -> str:
        """The dimension of the mesh along which ranks send to each other."""
        return self.cuts[self.dim]


Steps: TypeAlias = list[Work | Move | Halo]


def steps_of(
    works: Sequence[Work],
    placement: Cuts,
    lengths: Mapping[NamedDimension, int],
    mesh: Mapping[str, int],
    given: Cuts,
) -> Steps:
    """Return the steps of a composition, first one first, with as few exchanges as there can be.

    Parameters
    ----------
    works : sequence of Work
        The operators, one each, and what of them is placed.
    placement : mapping of dimension to dimension of the mesh
        As :func:`completed` returns it.
    lengths : mapping of dimension to int
        Those that are known.
    mesh : mapping of str to int
        How many ranks there are along each dimension.
    given : mapping of dimension to dimension of the mesh
        The placement as it was given, for errors.

    Raises
    ------
    ValueError
        If two dimensions of a vector, or of an operator, are on one dimension of the mesh.
    SplitError
        If a transform needs a dimension whole, and there is no other one to cut meanwhile.
    """
    found: Steps = []
    for work in works:
        (linop,) = work.linops
        checked_cuts(linop.ishape, placement)
        checked_cuts(linop.oshape, placement)
        is_cut = any(dim in placement for pair in axis_pairs(linop) for dim in pair)
        steps: Iterable[Work | Move | Halo] = [work]
        if is_cut:
            steps = _route(linop, placement, lengths, given)
        elif pairs := _read_across(work):
            steps = _with_halos(work, pairs, lengths, mesh)
        else:
            checked_cuts(work.cuts, placement)
        for step in steps:
            before = found[-1] if found else None
            together = _together(before, step)
            if together is None:
                found.append(step)
            else:
                found[-1] = together
    return found


def axis_pairs(linop: NamedLinop) -> list[tuple[NamedDimension, NamedDimension]]:
    """Return what each dimension of a grid becomes, of an operator along each by itself."""
    if not isinstance(linop, GridOperator) or linop.along((), linop.ishape) is None:
        return []
    pairs = [(here, there) for here, there in linop.axis_dims if here and there]
    return [(there, here) for here, there in pairs] if linop.is_adjoint else pairs


def completed(
    linops: Sequence[NamedLinop], placement: Cuts, *, is_endomorphism: bool
) -> dict[NamedDimension, str]:
    """Return the placement with a dimension for the other grid of each transform.

    That is the first other one of its grid that is free. Where the output of an operator from a
    space to itself has the grid of a transform, too, it is cut as its input is.
    """
    found, n_before = dict(placement), -1
    of_grids = {dim for linop in linops for pair in axis_pairs(linop) for dim in pair}
    while n_before < len(found):
        n_before = len(found)
        ends = linops[0].ishape, linops[-1].oshape
        if is_endomorphism and len(ends[0]) == len(ends[1]):
            for pair in zip(*ends, strict=True):
                placed = [found[dim] for dim in pair if dim in found]
                if placed and of_grids.issuperset(pair):
                    found.update(dict.fromkeys(pair, placed[0]))
        for linop in linops:
            pairs = axis_pairs(linop)
            _complete(found, pairs, linop.oshape)
            _complete(found, [(there, here) for here, there in pairs], linop.ishape)
    return found


def _complete(
    placement: dict[NamedDimension, str],
    pairs: Sequence[tuple[NamedDimension, NamedDimension]],
    names: Dims,
) -> None:
    """Place a dimension of one grid for each of the other grid that is placed."""
    for here, there in pairs:
        if here not in placement:
            continue
        taken = {placement[dim] for dim in names if dim in placement}
        others = [other for _, other in pairs if other != there]
        free = [dim for dim in (*others, there) if dim not in placement]
        if placement[here] not in taken and free:
            placement[free[0]] = placement[here]


def checked_cuts(dims: Iterable[NamedDimension], placement: Cuts) -> dict[NamedDimension, str]:
    """Return what is placed of some dimensions, each on a dimension of the mesh of its own."""
    found = {dim: placement[dim] for dim in dims if dim in placement}
    if len({*found.values()}) < len(found):
        raise ValueError(
            f"{_NAME}: each dimension of a vector must be placed on a dimension of the mesh of its "
            f"own, got { ({str(dim): name for dim, name in found.items()}) }; only dimensions that "
            "no vector has both, such as those of the two grids of an FFT, may share one"
        )
    return found


def _read_across(work: Work) -> list[tuple[NamedDimension, NamedDimension]]:
    """Return a dimension of the input and one of the output for each that is cut in both.

    None where an operator is made of shares, or its dimensions are not such pairs.
    """
    (linop,) = work.linops
    here = [dim for dim in work.cuts if dim in linop.ishape and dim not in linop.oshape]
    there = [dim for dim in work.cuts if dim in linop.oshape and dim not in linop.ishape]
    pairs = [(i, o) for i in here for o in there if work.cuts[i] == work.cuts[o]]
    is_all = len({*work.cuts.values()}) + len(pairs) == len(work.cuts)
    return pairs if is_all and work.source is None else []


def _with_halos(
    work: Work,
    pairs: Sequence[tuple[NamedDimension, NamedDimension]],
    lengths: Mapping[NamedDimension, int],
    mesh: Mapping[str, int],
) -> Iterator[Work | Halo]:
    """Yield an operator behind the exchanges that give each rank what its share of it reads."""
    (linop,) = work.linops
    cuts = {dim: name for dim, name in work.cuts.items() if dim in linop.ishape}
    before: dict[NamedDimension, Pieces] = {}
    for here, there in pairs:
        for dim in (here, there):
            if dim not in lengths:
                raise SplitError(
                    f"{linop.signature}: the size of {dim} must be known; give it, as in "
                    f"sizes={{'{dim}': 8}}"
                )
        cut = Cut(work.cuts[there], mesh[work.cuts[there]], lengths[there])
        reads = tuple(_read(linop, here, there, piece, lengths[here]) for piece in cut.pieces)
        after = {**before, here: reads}
        yield Halo(linop.ishape, cuts, here, before, after)
        before = after
    # What is cut in the output says what is read of the input, so that goes first.
    first = {there: work.cuts[there] for _, there in pairs}
    yield replace(work, cuts={**first, **work.cuts}, reads=before)


def _read(
    linop: NamedLinop, here: NamedDimension, there: NamedDimension, piece: slice, length: int
) -> tuple[int, int]:
    """Return what is read of a dimension for a slice of another one of the output."""
    if piece.start == piece.stop:
        return 0, 0
    read = tile_of(linop, {there: piece}).support(here)
    if read is None:
        return 0, length
    start = min(read.start, length - 1)
    return start, max(start + 1, read.stop)  # one that reads nothing is given an element


def _together(before: Work | Move | Halo | None, step: Work | Move | Halo) -> Work | None:
    """Return two steps as one, if ranks need send nothing between them."""
    if not isinstance(before, Work) or not isinstance(step, Work):
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
) -> list[Work | Move]:
    """Return the steps of a transform: each dimension is transformed when it is whole.

    The shortest way from the cuts of the input to those of the output, over all vectors between,
    which differ in what is transformed and what is cut.
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

    ways = deque([(frozenset[NamedDimension](), start, list[Work | Move]())])
    seen = set[object]()
    while ways:
        done, cuts, way = ways.popleft()
        ready = become.keys() - done - cuts.keys()
        if ready:
            part = linop.along(ready, names_after(done))
            assert part is not None
            way, done = [*way, Work((part,), cuts)], done | ready
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
        f"{linop.signature}: {dim} cannot be split: {linop.why_opaque(dim)}, and there is no other "
        f"dimension of known size to be cut along '{placement[dim]}' while {dim} is whole; give "
        f"sizes=, or another placement than { ({str(d): name for d, name in given.items()}) }"
    )


def _moved(
    names: Dims, cuts: Cuts, goal: Cuts, lengths: Mapping[NamedDimension, int]
) -> Iterator[dict[NamedDimension, str]]:
    """Yield all cuts that one exchange makes: those of the goal first, then of long dimensions."""
    whole = [dim for dim in names if dim in lengths and dim not in cuts]
    for dim, mesh_dim in cuts.items():
        rest = {other: name for other, name in cuts.items() if other != dim}
        for new in sorted(whole, key=lambda d: (goal.get(d) != mesh_dim, -lengths[d])):
            yield {**rest, new: mesh_dim}


def gain_of(linops: Sequence[NamedLinop], lengths: Mapping[NamedDimension, int]) -> float | None:
    """Return c where the normal of a chain of transforms is c times the identity, if it is known.

    Of their adjoint it is the same.
    """
    gain = 1.0
    for linop in linops:
        grid = [here for here, _ in axis_pairs(linop)]
        if not grid:
            return None
        if not isinstance(linop.N, Identity):
            if not isinstance(linop, FFT) or not all(dim in lengths for dim in grid):
                return None
            gain *= prod(lengths[dim] for dim in grid) ** (1 if linop.norm == "backward" else -1)
    return gain


def known_lengths(
    linops: Sequence[NamedLinop], sizes: Mapping[NamedDimension, int]
) -> dict[NamedDimension, int]:
    """Return the lengths of dimensions that operators know, or that follow from those given.

    But for names of dimensions that have several lengths along the chain.
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
    found = {**sizes, **{dim: min(own) for dim, own in lengths.items() if len(own) == 1}}
    pairs = [pair for linop in linops for pair in axis_pairs(linop)]
    for _ in linops:
        for here, there in pairs:
            for one, other in ((here, there), (there, here)):
                if one in found and found.setdefault(other, found[one]) != found[one]:
                    raise SplitError(
                        f"{_NAME}: {one} and {other} must have the same size, as the two grids of "
                        f"an FFT have, got {found[one]} and {found[other]}"
                    )
    return {dim: n for dim, n in found.items() if len(lengths.get(dim, ())) < 2}

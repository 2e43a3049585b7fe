"""The steps of an operator, with the share of this rank of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from linops_core import Chain, NamedLinop, SplitError
from nameddim import NamedDimension

from .._ranks._transport import Transport
from ._route import Cuts, LocalWork, Move, Steps, completed, known_lengths, steps_of
from ._share import (
    LoadedTile,
    Loader,
    Share,
    Sizes,
    load_tile,
    scattered_share,
    share_by_views,
    structure_of,
)

Source: TypeAlias = NamedLinop | Loader
"""An operator that all ranks have, or a function that makes shares."""
Shares: TypeAlias = list[Share | Move]
"""Steps, with the share of this rank of each computing step."""


@dataclass(frozen=True)
class OperatorSteps:
    """The steps of an operator in order."""

    whole: NamedLinop
    steps: Steps
    lengths: Mapping[NamedDimension, int]

    def sizes_in(self, work: LocalWork) -> Sizes:
        """Return lengths for the dimensions of a part."""
        dims = work.linop.dims
        return {dim: size for dim, size in self.lengths.items() if dim in dims}


def operator_steps(
    whole: NamedLinop,
    works: Sequence[LocalWork],
    placement: Cuts,
    sizes: Sizes,
    mesh: Mapping[str, int],
) -> OperatorSteps:
    """Return the steps of the composition of some operators."""
    linops = [work.linop for work in works]
    every = completed(linops, placement, is_endomorphism=whole.is_endomorphism)
    works = [
        replace(work, cuts={d: every[d] for d in every if d in linop.dims or d in work.cuts})
        for work, linop in zip(works, linops, strict=True)
    ]
    lengths = known_lengths(linops, sizes)
    steps = steps_of(works, every, lengths, mesh, placement)
    if len(steps) == 1:
        only = LocalWork((whole,), placement, works[0].source)
        return OperatorSteps(whole, [only], {**lengths, **sizes})
    for dim in placement:
        if not any(dim in work.cuts for work in works):
            raise SplitError(
                f"{whole.signature}: placement must name dimensions of the operator, got {dim}"
            )
    return OperatorSteps(whole, steps, {**lengths, **sizes})


def shares_of_all(
    linop: NamedLinop, ranks: Transport, placement: Cuts, sizes: Sizes
) -> tuple[OperatorSteps, Shares]:
    """Return the steps of an operator that all ranks have."""
    plan = operator_steps(linop, _works(linop), placement, sizes, ranks.mesh.sizes)
    return plan, [
        share_by_views(step, ranks, plan.sizes_in(step)) if isinstance(step, LocalWork) else step
        for step in plan.steps
    ]


def shares_of_one(
    linop: object, source: int, ranks: Transport, placement: Cuts, sizes: Sizes, owner: str
) -> tuple[OperatorSteps, Shares]:
    """Return the steps of an operator that one rank has."""
    whole = structure_of(linop, source, ranks, owner)
    plan = operator_steps(whole, _works(whole), placement, sizes, ranks.mesh.sizes)
    local_steps: Sequence[LocalWork | Move | None] = [None] * len(plan.steps)
    if isinstance(linop, NamedLinop) and ranks.mesh.rank == source:
        local_steps = operator_steps(linop, _works(linop), placement, sizes, ranks.mesh.sizes).steps
    shares: Shares = []
    for step, mine in zip(plan.steps, local_steps, strict=True):
        if isinstance(step, LocalWork):
            sizes = plan.sizes_in(step)
            full = mine.linop if isinstance(mine, LocalWork) else None
            shares.append(scattered_share(full, step, source, ranks, sizes, owner))
        else:
            shares.append(step)
    return plan, shares


def shares_of_functions(
    sources: Sequence[Source], ranks: Transport, placement: Cuts, sizes: Sizes, owner: str
) -> tuple[OperatorSteps, Shares]:
    """Return the steps of a sequence of functions and operators."""
    made: list[LoadedTile | None] = []
    linops: list[NamedLinop] = []
    for number, source in enumerate(sources):
        if isinstance(source, NamedLinop):
            parts = source.flatten()
            linops += parts
            made += [None] * len(parts)
        else:
            name = owner if len(sources) == 1 else f"{owner}: function {number}"
            tile = load_tile(source, ranks, placement, sizes, name, is_all=len(sources) == 1)
            linops.append(tile.whole)
            made.append(tile)
    whole = linops[0] if len(linops) == 1 else Chain(*linops)
    works = [
        LocalWork(
            (linop,), {} if one is None else dict.fromkeys(one.placed, ""), number if one else None
        )
        for number, (linop, one) in enumerate(zip(whole.flatten(), made, strict=True))
    ]
    plan = operator_steps(whole, works, placement, sizes, ranks.mesh.sizes)

    def share(step: LocalWork) -> Share:
        tile = None if step.source is None else made[step.source]
        if tile is None:
            return share_by_views(step, ranks, plan.sizes_in(step))
        return tile.share(ranks, step.cuts, plan.lengths, step.linop)

    return plan, [share(step) if isinstance(step, LocalWork) else step for step in plan.steps]


def _works(linop: NamedLinop) -> list[LocalWork]:
    return [LocalWork((factor,), {}) for factor in linop.flatten()]

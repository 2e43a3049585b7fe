"""The plan of an operator on a mesh of any size, made in one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import SideBySide, check_flags, is_size, submodules_of
from nameddim import ND, NamedDimension

from ._distribute import checked_placement, over_ranks
from ._operators._distributed import DistributedLinop
from ._plans._dry_run import dry_run
from ._plans._plan import MeshPlan, PlanStep, RankPlan, merged
from ._ranks._mesh import RankMesh
from ._ranks._transport import Transport
from ._shares._sharding import Cut


def plan_mesh(
    linop: NamedLinop,
    mesh: Mapping[str, int],
    placement: Mapping[str, str] | Mapping[NamedDimension, str],
    *,
    ordered: bool = False,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    like: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> MeshPlan:
    """Return what the ranks of a mesh of any size send, planned in one process without computing.

    Parameters
    ----------
    linop, placement, ordered, sizes
        As for :func:`distribute_linop`.
    mesh : mapping of str to int
        Number of ranks along each dimension.
    like : Tensor, optional
        A tensor of the size and dtype of a whole input. By default the sizes follow from the
        operator and ``sizes``.
    dtype : torch.dtype, optional
        Dtype of the input; needed if no weight is complex. By default the dtype of the complex
        weights.

    Raises
    ------
    SplitError, ValueError, TypeError
        As for :func:`distribute_linop`; or if the input is not known.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> A = Dense(torch.zeros(5, 100), ("M", "N"), ("N",), ("M",))
    >>> print(plan_mesh(A, {"nodes": 32}, {"N": "nodes"}, dtype=torch.float32))
    Dense (N) -> (M) on a mesh of nodes 32
      forward, ranks 0-31:
        sum of 20 bytes along (nodes), 32 ranks: the sum of the output
      adjoint, ranks 0-31: nothing
      normal, ranks 0-31:
        sum of 20 bytes along (nodes), 32 ranks: the sum of the output
    """
    check_flags("plan_mesh", ordered=ordered)
    owner = "plan_mesh"
    if not isinstance(linop, NamedLinop):
        raise TypeError(f"{owner}: linop must be a NamedLinop, got {type(linop)}")
    if not isinstance(mesh, Mapping) or not all(map(is_size, mesh.values())):
        raise TypeError(
            f"{owner}: mesh must be a mapping of names to positive numbers of ranks, got {mesh!r}"
        )
    lengths_of = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    everyone = range(prod(mesh.values()))
    first = Transport(RankMesh(mesh, dict.fromkeys(mesh, 0), everyone), ordered, is_dry=True)
    pairs = checked_placement(placement, first)
    blocks = [module for module in submodules_of(linop) if isinstance(module, SideBySide)]
    may_differ = any(pairs.keys() & {block.idim, block.odim} for block in blocks)

    def planned(objects: Sequence[Sequence[object]]) -> list[RankPlan]:
        """Return the plan of each rank; what ranks compare goes to ``compared``."""
        cuts: set[Cut] = set()
        steps: dict[object, Mapping[str, tuple[PlanStep, ...]]] = {}
        plans: list[RankPlan] = []
        compared.clear()
        for number, at in enumerate(first.mesh.coordinates()):
            # Ranks do the same if their shares have the same lengths, unless they read halos, or
            # have operands of their own.
            key = number if may_differ else _lengths(cuts, at)
            if key not in steps:
                ranks = replace(
                    first,
                    mesh=replace(first.mesh, at=at),
                    other_objects=objects or compared[:1],
                    own_objects=[],
                )
                compared.append(ranks.own_objects)
                A = over_ranks(ranks, linop, pairs, (), lengths_of)
                local = None if like is None else A.local_input(like.to("meta"))
                own_steps = dry_run(A, ranks, local, None, dtype).steps
                if not plans:
                    parts = [
                        module
                        for module in submodules_of(A)
                        if isinstance(module, DistributedLinop)
                    ]
                    cuts = {cut for module in parts for cut in module.sharding.cuts.values()}
                    key = number if may_differ else _lengths(cuts, at)
                steps[key] = own_steps
            plans.append(RankPlan((number,), steps[key]))
        return plans

    compared: list[list[object]] = []
    plans, before = planned(()), None
    while may_differ and plans != before:  # a sum has a dtype that fits the results of all ranks
        before, plans = plans, planned([*compared])
    return merged(linop.signature, mesh, plans)


def _lengths(cuts: Collection[Cut], at: Mapping[str, int]) -> tuple[object, ...]:
    return tuple(n if cut.reads else cut.lengths[n] for cut in cuts for n in [at[cut.mesh_dim]])

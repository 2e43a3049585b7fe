"""The proximal map of a sum of penalties of the outputs of several operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from .._shared._checks import Operator
from .._shared._space import Space
from .._shared._stacked import StackedOperators, one_per_operator
from ._proximal import Proximal, ProximalMap, checked_proximal, function_of_map

Proximals: TypeAlias = Proximal | Sequence[Proximal]
"""One proximal map, or a sequence of one for each operator."""


def map_of_all_blocks(
    owner: str, name: str, proximal: Proximals, A: Operator, space: Space
) -> Proximal:
    """Return one map; if A is several operators, it acts on each block of the output.

    ``space`` is the space of the output of A.
    """
    if not isinstance(A, StackedOperators):
        return cast(Proximal, proximal)  # checked_proximal refuses a sequence
    maps = maps_of_blocks(owner, name, proximal, A, space, torch.float32)
    given = one_per_operator(owner, name, proximal, A, "proximal map")
    spaces = space.blocks

    def of_sum(z: Tensor, step: float) -> Tensor:
        blocks = zip(maps, A.split(z), A.units, strict=True)
        results = [
            each(block, step) if unit == 1 else unit * each(block / unit, step / unit**2)
            for each, block, unit in blocks
        ]
        return A.joined(results)

    values = [function_of_map(each, home) for each, home in zip(given, spaces, strict=True)]

    def value(x: Tensor, _: Space) -> Tensor:
        blocks = zip(values, A.split(x), A.units, strict=True)
        return torch.stack([one(block / unit) for one, block, unit in blocks if one]).sum()

    value_in = value if None not in values else None
    return ProximalMap(of_sum, map_in=lambda space: of_sum, value_in=value_in)


def maps_of_blocks(
    owner: str,
    name: str,
    proximal: Proximals,
    A: StackedOperators,
    space: Space,
    dtype: torch.dtype,
) -> list[Proximal]:
    """Return the map of each block of the output, in the order of the operators."""
    given = one_per_operator(owner, name, proximal, A, "proximal map")
    spaces = space.blocks
    return [
        checked_proximal(owner, f"{name}[{number}]", each, dtype, home)
        for number, (each, home) in enumerate(zip(given, spaces, strict=True))
    ]

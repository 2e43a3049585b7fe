"""Dry runs: an operator runs without data to find what a rank sends and computes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.questions import Question
from linops_core.siblings import submodules_of
from linops_split.siblings import (
    WORK_OPERATORS,
    TorchDispatchMode,
    WithoutData,
    complex_dtype,
    input_of,
    tensors_in,
)
from nameddim import NamedDimension

from .._ranks._marks import Order
from .._ranks._transport import Sent, Transport
from ._plan import Computed, PlanStep, RankPlan


@Question.inherited
def has_ranks(linop: object) -> bool:
    """Return whether an operator sends through its ``ranks``."""
    return False


def dry_run(
    linop: NamedLinop,
    ranks: Transport,
    like: Tensor | None,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None,
    dtype: torch.dtype | None,
) -> RankPlan:
    """Return what this rank sends and computes in A, A.H and A.N.

    Ranks still compare their first calls: a rank without work learns its output from them.
    """
    owner = f"{linop.signature}: plan"
    if like is None and dtype is None:
        dtypes = ranks.all_gather(complex_dtype(linop), owner, "dtype of the input")
        dtype = next((one for one in dtypes if one is not None), None)
    given = input_of(linop, like, sizes, dtype, owner)
    without_data = WithoutData(linop.signature)
    dry = without_data.of(linop)
    ranks = replace(ranks, is_dry=True, order=Order(ranks.order.serial))
    for module in submodules_of(dry):
        if has_ranks(module):
            module.ranks = ranks  # type: ignore[assignment]  # it is one
    steps: dict[str, tuple[PlanStep, ...]] = {}
    with without_data.running():
        device = next(iter(linop.input_devices), None)
        x = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=device)
        y = torch.empty_like(dry(x))
        for work, derived in WORK_OPERATORS.items():
            called, ranks.log = derived(dry), []
            with _Counting(ranks.log) as counting:
                called(y if work == "adjoint" else x)
            steps[work] = counting.steps()
    return RankPlan((ranks.mesh.rank,), steps)


class _Counting(TorchDispatchMode):
    """Counts the bytes that operations read and write between steps of communication."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sent = sent
        self._computed: dict[int, int] = defaultdict(int)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and any(True for _ in tensors_in([result])):
            n_bytes = sum(tensor.nbytes for tensor in tensors_in((args, kwargs, result)))
            self._computed[len(self._sent)] += n_bytes
        return result

    def steps(self) -> tuple[PlanStep, ...]:
        """Return computation and communication in order."""
        result: list[PlanStep] = []
        for number, sent in enumerate([*self._sent, None]):
            if self._computed[number]:
                result.append(Computed(self._computed[number]))
            if sent is not None:
                result.append(sent)
        return tuple(result)

"""Gradients of operators on several devices whose weights and inputs depend on each other."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from linops_core import NamedLinop
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import SCHEDULES, simulated
from linops_split.testing import DependentGraph, dependent_graphs

pytestmark = pytest.mark.usefixtures("simulation")


@settings(max_examples=settings().max_examples // 4)
@given(
    dependent_graphs(),
    st.lists(st.integers(0, 19), min_size=1, max_size=3),
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from(["cpu", "sim:0", "sim:1"]), min_size=1, max_size=3),
    st.sampled_from(["cpu", "sim:0"]),
    st.sampled_from(SCHEDULES),
)
@example(DependentGraph([(0, 3, "A", (1, 2))]), [0], 2, ["cpu", "sim:1"], "cpu", "newest")
@example(DependentGraph([(3, 2, "there and back", (2, 2))]), [4], 2, ["sim:1"], "sim:0", "newest")
def test_gradients_are_those_of_the_whole(
    graph: DependentGraph, of: list[int], order: int, devices: list[str], base: str, schedule: str
) -> None:
    leaf = torch.randn(12, dtype=torch.float64)

    def batched(linop: NamedLinop, batch_sizes: Mapping[str, int]) -> NamedLinop:
        return create_batched_linop(linop, BatchSpec(batch_sizes, devices, base))

    def uncut(linop: NamedLinop, batch_sizes: Mapping[str, int]) -> NamedLinop:
        return linop

    wanted = graph.derivatives(uncut, leaf.clone().requires_grad_(), of, order)
    with simulated(2, schedule=schedule):
        there = leaf.to(base).requires_grad_()
        results = graph.derivatives(batched, there, of, order)
        results = [None if gradient is None else gradient.cpu() for gradient in results]
        torch.testing.assert_close(results, wanted)
        del there

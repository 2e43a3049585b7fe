"""Gradients, and gradients of gradients, of tiled operators are those of the whole operators."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import functional

from linops_core import Dense, Interpolate, NamedLinop
from linops_core._kernels._interpolation._table import InterpolationTable
from linops_core._operators import _interpolate
from linops_solvers import conjugate_gradients
from linops_split import batch_linop
from linops_split.testing import DependentGraph, dependent_graphs


def uncut(linop: NamedLinop, batch_sizes: Mapping[str, int]) -> NamedLinop:
    return linop


def leaf_of(seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(12, dtype=dtype, generator=generator, requires_grad=True)


W_W = DependentGraph([(0, 3, "A", (1, 2))])  # the input is the weight, a view of the leaf
B_H_B = DependentGraph([(3, 2, "there and back", (2, 2))])


@given(
    dependent_graphs(),
    st.lists(st.integers(0, 19), min_size=1, max_size=4),
    st.sampled_from([1, 2]),
    st.sampled_from([torch.float64, torch.complex128]),
)
@example(W_W, [0], 2, torch.float64)
@example(W_W, [1], 1, torch.float64)
@example(B_H_B, [4], 2, torch.complex128)
def test_gradients_are_those_of_the_whole(
    graph: DependentGraph, of: list[int], order: int, dtype: torch.dtype
) -> None:
    leaf = leaf_of(0, dtype)
    result = graph.derivatives(batch_linop, leaf, of, order)
    torch.testing.assert_close(result, graph.derivatives(uncut, leaf, of, order))


def hessian_by_batches(f: Callable[[Tensor], Tensor], leaf: Tensor) -> Tensor:
    """Return a hessian from one batch of gradients, which leaves the graph as it is."""
    x = leaf.detach().requires_grad_()
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    basis, keep = torch.eye(len(x), dtype=x.dtype), {"retain_graph": True}
    (again,) = torch.autograd.grad(first, x, basis, is_grads_batched=True, **keep)
    (once,) = torch.autograd.grad(first, x, basis, is_grads_batched=True)
    assert torch.equal(again, once)
    return again


WAYS: dict[str, Callable[..., Any]] = {
    "hessian": functional.hessian,
    "batches": hessian_by_batches,
    "jacobian": lambda f, x: functional.jacobian(f, x, create_graph=True),
    "hvp": lambda f, x: functional.hvp(f, x, torch.ones_like(x)),
    "func.hessian": lambda f, x: torch.func.hessian(f)(x),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=settings().max_examples // 4)
@given(dependent_graphs())
@example(W_W)
@example(B_H_B)
def test_every_way_to_differentiate_gives_the_same(way: str, graph: DependentGraph) -> None:
    leaf = leaf_of(1).detach()
    result, wanted = (
        WAYS[way](lambda x, c=cut: graph(c, x)[0], leaf) for cut in (batch_linop, uncut)
    )
    torch.testing.assert_close(result, wanted)


def test_steps_of_conjugate_gradients_have_one_gradient_with_and_without_a_graph() -> None:
    weight, y = nn.Parameter(leaf_of(2).detach().view(4, 3)), leaf_of(3).detach()[:3]
    A = Dense(weight, ("M", "N"))
    results = []
    for linop in (A, batch_linop(A, {"M": 2}), batch_linop(A, {"N": 2})):
        x = conjugate_gradients(linop.N, y, max_num_iters=3, gtol=0, ltol=0)
        (first,) = torch.autograd.grad(x.square().sum(), weight, create_graph=True)
        results.append([first, *torch.autograd.grad(first.square().sum(), weight)])
    torch.testing.assert_close(results[1:], [results[0]] * 2)


def test_a_step_of_training_makes_the_table_of_frozen_locations_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []

    class Counted(InterpolationTable):
        def __init__(self, *args: Any) -> None:
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(_interpolate, "InterpolationTable", Counted)
    maps = Dense(nn.Parameter(torch.rand(4, 6)), ("C", "Kx"), ("Kx",), ("C", "Kx"))
    B = batch_linop(Interpolate(torch.rand(9, 1), [6], dims=("Kx",)) @ maps, {"C": 1})
    for _ in range(2):
        made.clear()
        B(torch.rand(6)).sum().backward()
        assert len(made) == 1

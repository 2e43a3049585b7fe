"""Systems in chunks: the same results and messages as of all systems at once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal, NamedLinop
from linops_solvers import ConvergenceWarning, Record, conjugate_gradients
from linops_solvers._krylov import _chunks
from linops_solvers._krylov._chunks import chunks_of


def systems(count: int, n: int, seed: int, last: bool = False) -> tuple[NamedLinop, Tensor]:
    """Return positive definite systems side by side, along the first or the last axis."""
    generator = torch.Generator().manual_seed(seed)
    roots = torch.randn(count, n, n, dtype=torch.float64, generator=generator)
    matrices = roots @ roots.mT + torch.eye(n, dtype=torch.float64)
    y = torch.randn(count, n, dtype=torch.float64, generator=generator)
    sides = (("N", "B"), ("M", "B")) if last else (("B", "N"), ("B", "M"))
    return Dense(matrices, ("B", "M", "N"), *sides), y.mT.contiguous() if last else y


@given(st.integers(2, 7), st.integers(1, 4), st.integers(1, 7), st.booleans(), st.integers(0, 99))
def test_chunks_have_the_solutions_of_all_at_once(
    count: int, n: int, per_chunk: int, last: bool, seed: int
) -> None:
    A, y = systems(count, n, seed, last)
    scales = torch.logspace(-3, 3, count, dtype=torch.float64)
    weight = scales.expand(n, count) if last else scales.expand(n, count).mT
    P = Diagonal(weight, ("N", "B") if last else ("B", "N"))
    whole = conjugate_gradients(A, y, y, 50, 1e-9, batch_dims="B", preconditioner=P)
    with pytest.MonkeyPatch.context() as patch:
        # Of few bytes also half a chunk is past the limit.
        patch.setattr(_chunks, "CHUNK_NBYTES", max(1, per_chunk * n * 8 // 5))
        parts = conjugate_gradients(A, y, y, 50, 1e-9, batch_dims="B", preconditioner=P)
    assert torch.allclose(parts, whole, rtol=1e-6, atol=1e-8)
    assert torch.allclose(A(parts), y, rtol=1e-6, atol=1e-7)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks of one system."""
    monkeypatch.setattr(_chunks, "CHUNK_NBYTES", 1)


@pytest.mark.usefixtures("one_by_one")
def test_the_system_of_which_a_user_is_told_is_that_of_all() -> None:
    A = Diagonal(torch.tensor([[1.0, 2.0], [1.0, 3.0], [1.0, -1.0]]), ("B", "N"))
    y = torch.ones(3, 2)
    assert len(chunks_of(A, None, y, (0,))) == 3
    with pytest.raises(ValueError, match=r"for a direction p of system 2"):
        conjugate_gradients(A, y, batch_dims=1)
    half = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    matrices = torch.stack([torch.eye(8), half.mT @ half, half.mT @ half])
    S = Dense(matrices, ("B", "M", "N"), ("B", "N"), ("B", "M"))
    with pytest.warns(ConvergenceWarning, match=r"\|A x - y\| of system 1 must fall") as told:
        conjugate_gradients(S, torch.ones(3, 8), batch_dims="B", max_num_iters=100, ltol=0)
    assert len(told) == 1


@pytest.mark.usefixtures("one_by_one")
def test_gradients_go_through_chunks() -> None:
    A, y = systems(3, 3, seed=0)
    weight = next(A.buffers()).clone().requires_grad_()
    A = Dense(weight, ("B", "M", "N"), ("B", "N"), ("B", "M"))
    for implicit in (False, True):
        x = conjugate_gradients(A, y, None, 50, 1e-12, 0.0, batch_dims=1, implicit=implicit)
        (found,) = torch.autograd.grad(x.square().sum(), weight)
        exact = torch.linalg.solve(weight, y.unsqueeze(-1)).square().sum()
        (expected,) = torch.autograd.grad(exact, weight)
        # Of a Hermitian A only changes that keep it so have a say.
        assert torch.allclose(found + found.mT, expected + expected.mT, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("one_by_one")
def test_all_systems_are_one_chunk_where_they_must_be() -> None:
    A, y = systems(3, 2, seed=0)
    assert len(chunks_of(A, None, y, (0,))) == 3
    assert len(chunks_of(A, A, y, (0,))) == 3
    assert len(chunks_of(A, None, y, ())) == 1
    assert len(chunks_of(lambda x: A(x), None, y, (0,))) == 1
    assert len(chunks_of(A, lambda x: x, y, (0,))) == 1
    history = Record()
    conjugate_gradients(A, y, batch_dims=1, callback=history)
    assert history.last is not None
    assert len(history.last.reasons) == 3

"""The proximal gradient method and split Bregman: what they share with FISTA and ADMM."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linops_core import Dense, Diagonal
from linops_solvers import (
    Record,
    StopReason,
    admm,
    fista,
    l0,
    no_penalty,
    proximal_gradient,
    soft_threshold,
    split_bregman,
)

seeds = st.integers(0, 2**16)
dtypes = st.sampled_from([torch.float64, torch.complex128])


def problem(dtype: torch.dtype, seed: int) -> tuple[Dense, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(6, 4, dtype=dtype, generator=generator)
    y = torch.randn(6, dtype=dtype, generator=generator)
    return Dense.from_einstr(matrix, "MN,N->M"), matrix, y


@settings(max_examples=settings().max_examples // 3)
@given(dtypes, seeds)
def test_it_finds_what_fista_finds(dtype: torch.dtype, seed: int) -> None:
    A, _, y = problem(dtype, seed)
    record = Record()
    x = proximal_gradient(A, y, soft_threshold(0.3), None, 20000, 1e-9, callback=record)
    assert record.reason is StopReason.CONVERGED
    torch.testing.assert_close(x, fista(A, y, soft_threshold(0.3), None, 5000, 1e-11))


@given(dtypes, seeds)
def test_steps_are_those_of_the_formula_and_never_go_uphill(dtype: torch.dtype, seed: int) -> None:
    A, matrix, y = problem(dtype, seed)
    step = 0.9 / float(torch.linalg.matrix_norm(matrix, 2)) ** 2
    x, costs = torch.zeros(4, dtype=dtype), []
    for _ in range(7):
        costs.append(float((matrix @ x - y).abs().square().sum() / 2 + 0.3 * x.abs().sum()))
        x = soft_threshold(0.3)(x - step * (matrix.mH @ (matrix @ x - y)), step)
    result = proximal_gradient(A, y, soft_threshold(0.3), None, 7, 0, step=step)
    torch.testing.assert_close(result, x)
    assert costs == sorted(costs, reverse=True)


@given(dtypes, seeds)
def test_hard_thresholds_end_at_a_point_that_is_best_on_its_support(
    dtype: torch.dtype, seed: int
) -> None:
    A, matrix, y = problem(dtype, seed)
    x = proximal_gradient(A, y, l0(0.05), None, 20000, 1e-10)
    support = x != 0
    gradient = matrix.mH @ (matrix @ x - y)
    assert float(gradient[support].abs().amax()) < 1e-6 if bool(support.any()) else True


@settings(max_examples=settings().max_examples // 4)
@given(dtypes, seeds, st.floats(0.3, 3.0))
def test_split_bregman_is_admm_with_a_fixed_weight(
    dtype: torch.dtype, seed: int, rho: float
) -> None:
    A, matrix, y = problem(dtype, seed)
    L = Dense.from_einstr(torch.eye(4)[1:].to(dtype) - torch.eye(4)[:-1], "PN,N->P")
    result = split_bregman(A, y, soft_threshold(0.3), L, rho=rho, eps_rel=1e-7, max_num_iters=3000)
    same = admm(
        A,
        y,
        soft_threshold(0.3),
        L,
        rho=rho,
        is_rho_fixed=True,
        eps_rel=1e-7,
        max_num_iters=3000,
    )
    assert torch.equal(result, same)
    # The subgradient: A^H (A x - y) = -0.3 L^H p for a p that is at most 1.
    slope = -(matrix.mH @ (matrix @ result - y)) / 0.3
    p = torch.linalg.lstsq(L.H.to_dense(dtype=dtype), slope.unsqueeze(-1)).solution
    assert float(p.abs().max()) <= 1 + 1e-3


@pytest.mark.parametrize(
    ("dtype", "solver", "largest"),
    [
        (torch.float16, proximal_gradient, 8e-3),
        (torch.bfloat16, proximal_gradient, 6e-2),
        (torch.float16, fista, 2e-3),
        (torch.bfloat16, fista, 5e-2),
    ],
)
def test_half_precision_does_not_end_slow_steps(
    dtype: torch.dtype, solver: Any, largest: float
) -> None:
    """Steps that are smaller than the rounding of A still add up."""
    weights = torch.tensor([1.0, 0.5, 0.25, 0.2], dtype=dtype)
    record, wanted = Record(), 1 / weights.double()
    y, A = torch.ones(4, dtype=dtype), Diagonal(weights, ("N",))
    x = solver(A, y, no_penalty(), max_num_iters=2000, callback=record)
    assert record.reason is StopReason.ROUNDING
    assert (x.double() - wanted).norm() < largest * wanted.norm()

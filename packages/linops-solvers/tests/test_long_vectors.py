"""Solvers, maps and dot tests of long vectors in single precision, of which torch sums badly.

Equal entries are the worst case: their rounding has one sign. 2^21 of them show what random entries
show from 2^24 on.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_core import Dense, Diagonal, SumReduce
from linops_core.siblings import inner_products
from linops_core.testing import inner, is_adjoint
from linops_solvers import (
    conjugate_gradients,
    l2_ball,
    lsqr,
    minres,
    nuclear_norm,
    operator_norm,
    svd,
)

N = 2**21
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])


def steps_of(values: list[float], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype).repeat(-(-N // len(values)))[:N]


@dtypes
@pytest.mark.parametrize("solver", [conjugate_gradients, minres, lsqr])
def test_a_correct_system_is_solved(solver: Callable[..., Tensor], dtype: torch.dtype) -> None:
    A = Diagonal(steps_of([3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], torch.float32), ("N",))
    y = steps_of([0.1, 0.2, 0.2], dtype)
    result = solver(A, y, max_num_iters=10)
    torch.testing.assert_close(A(result), y, atol=0, rtol=1e-3)


@dtypes
def test_a_projection_onto_a_ball_lies_in_the_ball(dtype: torch.dtype) -> None:
    result = l2_ball(1.0)(steps_of([0.1], dtype), 1.0).to(torch.complex128)
    assert abs(torch.linalg.vector_norm(result) - 1) < 1e-6


@dtypes
def test_the_dot_test_knows_a_correct_adjoint(dtype: torch.dtype) -> None:
    x = steps_of([0.1], dtype)
    A = SumReduce(("N",), (), sizes={"N": N})
    assert is_adjoint(A, x, torch.ones((), dtype=dtype))
    assert abs(inner(x, x).real / (x[0].real.double() ** 2 * N) - 1) < 1e-6


def test_the_norm_of_an_operator(dtype: torch.dtype = torch.complex64) -> None:
    A = Diagonal(torch.full((N,), 0.7), ("N",))
    assert operator_norm(A, steps_of([0.1], dtype)).item() == pytest.approx(0.7, rel=1e-6)


def test_singular_vectors_of_long_matrices() -> None:
    w = torch.randn(3, 2**19, generator=torch.Generator().manual_seed(0))
    result = svd(Dense(w, "MN"), 2, max_num_iters=2)
    exact = torch.linalg.svdvals(w.double())[:2]
    torch.testing.assert_close(result.S.double(), exact, rtol=1e-6, atol=0)
    products = inner_products(result.V.double(), result.V.double().mT)
    torch.testing.assert_close(products, torch.eye(2).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(2**17, 4), (4, 2**17)])
def test_singular_values_of_long_matrices(shape: tuple[int, int]) -> None:
    """LAPACK's err by 1e-5 at random entries, and more with more rows."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    g, exact = nuclear_norm(0.9), x.double()
    step = 0.5 * float(torch.linalg.svdvals(exact)[0])
    expected, result = g(exact, step), g(x, step).double()
    assert (result - expected).norm() < 3e-6 * expected.norm()
    for each in (x, x.clone().requires_grad_()):
        assert g.value(each).item() == pytest.approx(float(g.value(exact)), rel=1e-6)

"""Solvers refuse adjoints of another scale, and functions that write into their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_solvers import (
    admm,
    conjugate_gradients,
    fista,
    gmres,
    l2_squared,
    lsmr,
    lsqr,
    minres,
    pdhg,
    power_method,
    soft_threshold,
    svd,
)

Solver = Callable[..., Any]
SOLVERS: dict[str, Solver] = {
    "lsqr": lambda A, back, y: lsqr(A, y, adjoint=back),
    "lsmr": lambda A, back, y: lsmr(A, y, adjoint=back),
    "fista": lambda A, back, y: fista(A, y, soft_threshold(0.1), adjoint=back),
    "admm": lambda A, back, y: admm(A, y, soft_threshold(0.1), adjoint=back),
    "admm with L": lambda A, back, y: admm(
        torch.positive, y, soft_threshold(0.1), A, adjoint=torch.positive, L_adjoint=back
    ),
    "pdhg": lambda A, back, y: pdhg(
        A, l2_squared(1.0), soft_threshold(0.1), torch.ones_like(y), adjoint=back
    ),
}
solvers = pytest.mark.parametrize("solver", [*SOLVERS.values()], ids=[*SOLVERS])
dtypes = st.sampled_from([torch.float32, torch.complex64, torch.float64, torch.complex128])


@solvers
@given(dtype=dtypes, seed=st.integers(0, 2**16), factor=st.sampled_from([0.5, 2.0, -1.0, 1e5]))
def test_an_adjoint_of_another_scale_is_refused(
    solver: Solver, dtype: torch.dtype, seed: int, factor: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(4, 4, dtype=dtype, generator=generator)
    y = torch.randn(4, dtype=dtype, generator=generator)
    with pytest.raises(ValueError, match=r"adjoint must be the adjoint of A .* got <A\^H u, v> ="):
        solver(matrix.mv, lambda y: factor * (matrix.mH @ y), y)


def writing(x: Tensor) -> Tensor:
    y = 2 * x
    x.zero_()
    return y


@pytest.mark.parametrize(
    "solve",
    [
        *(lambda A, y, solver=solver: solver(A, A, y) for solver in SOLVERS.values()),
        gmres,
        minres,
        conjugate_gradients,
        power_method,
        lambda A, y: svd(A, 1, y, adjoint=A),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_a_function_that_writes_into_its_input_is_refused(
    solve: Callable[..., object], dtype: torch.dtype
) -> None:
    with pytest.raises(
        ValueError, match=r"must not write into its input .* got an input that chang"
    ):
        solve(writing, torch.ones(3, dtype=dtype))

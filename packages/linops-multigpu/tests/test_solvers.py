"""Solvers on a simulated device, where each number that the host reads is waited for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_core import Dense
from linops_multigpu.testing import simulated
from linops_solvers import (
    admm,
    conjugate_gradients,
    fista,
    gmres,
    lsmr,
    lsqr,
    minres,
    soft_threshold,
)

Run = Callable[[Dense, Tensor], Tensor]

STEPS = 4
RUNS: dict[str, Run] = {
    "conjugate_gradients": lambda A, y: conjugate_gradients(A.N, A.H(y), max_num_iters=STEPS),
    "lsqr": lambda A, y: lsqr(A, y, max_num_iters=STEPS),
    "lsmr": lambda A, y: lsmr(A, y, max_num_iters=STEPS),
    "gmres": lambda A, y: gmres(A.N, A.H(y), max_num_iters=STEPS),
    "minres": lambda A, y: minres(A.N, A.H(y), max_num_iters=STEPS),
    "fista": lambda A, y: fista(A, y, soft_threshold(0.1), max_num_iters=STEPS),
    "admm": lambda A, y: admm(A, y, soft_threshold(0.1), max_num_iters=STEPS),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_solver_gives_what_it_gives_on_the_cpu(run: Run) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, 4, dtype=torch.complex64, generator=generator)
    y = torch.randn(6, dtype=torch.complex64, generator=generator)
    wanted = run(Dense(matrix, ("M", "N"), ("N",), ("M",)), y)
    with simulated() as world:
        A = Dense(matrix.to("sim:0"), ("M", "N"), ("N",), ("M",))
        result = run(A, y.to("sim:0"))
        world.synchronize()
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-3, atol=1e-3)

"""Splitting methods with one operator and with several: PyProximal must find the same minimum."""

import numpy as np
import pytest
import torch

from linops_core import Dense
from linops_imaging import FiniteDifference
from linops_solvers import admm, l2_squared, pdhg, soft_threshold

pylops = pytest.importorskip("pylops")
pyproximal = pytest.importorskip("pyproximal")
SIZE = 8
rng = np.random.default_rng(0)
MATRIX, BASIS = rng.standard_normal((12, SIZE)), rng.standard_normal((5, SIZE))
Y = rng.standard_normal(12)
WEIGHTS = (0.7, 0.3)  # of differences, and of what BASIS makes

A = Dense(torch.from_numpy(MATRIX), ("M", "N"), ("N",), ("M",))
G = FiniteDifference("N", SIZE, "forward", "replicate", shape=("N",))
B = Dense(torch.from_numpy(BASIS), ("P", "N"), ("N",), ("P",))
PENALTIES = [soft_threshold(weight) for weight in WEIGHTS]
DIFFERENCES = pylops.FirstDerivative(SIZE, kind="forward", edge=False)
SUM_OF_BOTH = pylops.VStack([DIFFERENCES, pylops.MatrixMult(BASIS)])
# One 1-norm for each block of what SUM_OF_BOTH returns.
THEIR_PENALTIES = [pyproximal.L1(sigma=weight) for weight in WEIGHTS]


@pytest.mark.parametrize("count", [1, 2])
def test_admm(count: int) -> None:
    theirs = [DIFFERENCES, SUM_OF_BOTH][count - 1]
    penalty = pyproximal.VStack(THEIR_PENALTIES[:count], [SIZE, 5][:count])
    expected, _ = pyproximal.optimization.primal.ADMML2(
        penalty,
        pylops.MatrixMult(MATRIX),
        Y,
        theirs,
        np.zeros(SIZE),
        tau=0.2,
        niter=3000,
        iter_lim=100,
        atol=1e-14,
        btol=1e-14,
    )
    y = torch.from_numpy(Y)
    penalties, operators = PENALTIES[:count], [G, B][:count]
    result = admm(A, y, penalties, operators, None, 5000, eps_rel=1e-10, max_cg_iters=100)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_the_primal_dual_method(count: int) -> None:
    theirs = [DIFFERENCES, SUM_OF_BOTH][count - 1]
    penalty = pyproximal.VStack(THEIR_PENALTIES[:count], [SIZE, 5][:count])
    step = 0.9 / np.linalg.norm(theirs.todense(), 2)
    expected = pyproximal.optimization.primaldual.PrimalDual(
        pyproximal.L2(b=Y[:SIZE]), penalty, theirs, np.zeros(SIZE), step, step, niter=20000
    )
    near = l2_squared(1.0, center=torch.from_numpy(Y[:SIZE]))
    x0 = torch.zeros(SIZE, dtype=torch.float64)
    result = pdhg([G, B][:count], PENALTIES[:count], near, x0, 50000, eps_rel=1e-10)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)

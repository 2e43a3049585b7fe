"""Solvers that PyLops has too: both must find one solution."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from linops_core import Dense
from linops_imaging import FiniteDifference
from linops_solvers import irls, omp, soft_threshold, split_bregman

pylops = pytest.importorskip("pylops")
Array = npt.NDArray[np.float64]
sparsity = pytest.importorskip("pylops.optimization.sparsity")


def problem(n_rows: int, n_columns: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_rows)


def dense(matrix: Array) -> Dense:
    return Dense(torch.from_numpy(matrix), ("M", "N"), ("N",), ("M",))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_orthogonal_matching_pursuit_with_columns_of_one_length(count: int) -> None:
    matrix, y = problem(8, 12)
    matrix /= np.linalg.norm(matrix, axis=0)
    expected, *_ = sparsity.omp(
        pylops.MatrixMult(matrix), y, niter_outer=count, niter_inner=200, sigma=0
    )
    result = omp(dense(matrix), torch.from_numpy(y), count, tol=0)
    assert np.count_nonzero(expected) == count
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-8)


def test_least_absolute_deviations_by_reweighting() -> None:
    matrix, y = problem(15, 3)
    y[4] += 50.0
    expected, _ = sparsity.irls(
        pylops.MatrixMult(matrix), y, nouter=500, epsR=1e-6, epsI=0, tolIRLS=1e-12
    )
    result = irls(dense(matrix), torch.from_numpy(y), max_num_iters=500, tol=1e-8, epsilon=1e-5)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("eps", [0.5, 0.7])
def test_split_bregman_of_total_variation(eps: float) -> None:
    matrix, y = problem(12, 8)
    theirs = pylops.FirstDerivative(8, kind="forward", edge=False)
    expected, *_ = sparsity.splitbregman(
        pylops.MatrixMult(matrix),
        y,
        [theirs],
        niter_outer=500,
        niter_inner=1,
        mu=1.0,
        epsRL1s=[eps],
        tol=1e-14,
        iter_lim=50,
    )
    L = FiniteDifference("N", 8, "forward", "replicate", shape=("N",))
    np.testing.assert_allclose(
        L.to_dense({"N": 8}, torch.float64).numpy(), theirs.todense(), atol=1e-14
    )
    result = split_bregman(
        dense(matrix),
        torch.from_numpy(y),
        soft_threshold(eps**2),  # theirs couples and thresholds with eps, so the weight is eps^2
        L,
        max_num_iters=5000,
        eps_rel=1e-10,
        max_cg_iters=100,
    )
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-6)

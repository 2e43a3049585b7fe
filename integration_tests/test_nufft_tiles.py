"""A NUFFT in tiles of coils, frames and points is the whole, as is its normal as a convolution."""

import pytest
import torch

from linops_core import Dense, NamedLinop
from linops_imaging import NUFFT
from linops_imaging._non_uniform import _finufft_plan
from linops_multigpu import BatchSpec, create_batched_linop
from linops_split import batch_linop, plan_batches

SIZES = (6, 5)


def transform(method: str = "finufft", *, toeplitz: bool) -> NamedLinop:
    unit = torch.rand(4, 10, 2, dtype=torch.float64) - 0.5
    locs = unit * torch.tensor(SIZES)
    names = ("T", "K"), None, None, ("C", "T")
    return NUFFT(locs, SIZES, *names, tol=1e-9, method=method, toeplitz=toeplitz)


@pytest.mark.parametrize("sizes", [{"C": 2}, {"T": 1}, {"K": 4}, {"C": 1, "T": 3, "K": 5}])
@pytest.mark.parametrize(
    ("method", "toeplitz"), [("finufft", False), ("finufft", True), ("table", False)]
)
def test_tiles_make_up_the_whole(sizes: dict[str, int], method: str, toeplitz: bool) -> None:
    maps = torch.randn(3, *SIZES, dtype=torch.complex128)
    A = transform(method, toeplitz=toeplitz) @ Dense(
        maps, ("C", "Nx", "Ny"), ("T", "Nx", "Ny"), ("C", "T", "Nx", "Ny")
    )
    x = torch.randn(4, *SIZES, dtype=torch.complex128)
    tiled = batch_linop(A, sizes)
    y = A(x)
    torch.testing.assert_close(tiled(x), y)
    torch.testing.assert_close(tiled.H(y), A.H(y))
    torch.testing.assert_close(batch_linop(A.N, sizes)(x), A.H(y), atol=1e-7, rtol=0)
    scheduled = create_batched_linop(A, [BatchSpec(sizes)])
    torch.testing.assert_close(scheduled.N(x), A.H(y), atol=1e-7, rtol=0)


def test_memory_of_plans_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_finufft_plan, "_POINTS", 100)
    locs = torch.zeros(3, 1000, 2)
    A = NUFFT(locs, (32, 32), ("T", "K"), batch_shape=("C", "T"), method="finufft", tol=1e-2)
    plan = plan_batches(A, "1 GiB", sizes={"C": 1}, dtype=torch.complex64, work="forward")
    own, grid, result = 1000 * (2 * 4 + 8), 8 * 40 * 40, 8 * 1000
    assert 3 * (own + result) + grid <= plan.peak <= 3 * (own + result) + grid + 200 * 8

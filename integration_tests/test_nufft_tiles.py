"""A NUFFT in tiles of coils, frames and points is the whole, as is its normal as a convolution."""

import pytest
import torch

from linops_core import Dense, NamedLinop
from linops_imaging import NUFFT
from linops_multigpu import BatchSpec, create_batched_linop
from linops_split import batch_linop

SIZES = (6, 5)


def transform(*, toeplitz: bool) -> NamedLinop:
    unit = torch.rand(4, 10, 2, dtype=torch.float64) - 0.5
    locs = unit * torch.tensor(SIZES)
    return NUFFT(locs, SIZES, ("T", "K"), batch_shape=("C", "T"), tol=1e-9, toeplitz=toeplitz)


@pytest.mark.parametrize("sizes", [{"C": 2}, {"T": 1}, {"K": 4}, {"C": 1, "T": 3, "K": 5}])
@pytest.mark.parametrize("toeplitz", [False, True])
def test_tiles_make_up_the_whole(sizes: dict[str, int], toeplitz: bool) -> None:
    maps = torch.randn(3, *SIZES, dtype=torch.complex128)
    A = transform(toeplitz=toeplitz) @ Dense(
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

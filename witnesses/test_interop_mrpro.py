"""Operators that call those of mrpro, and the NUFFT with the same numbers."""

import math
from typing import Any

import pytest
import torch

from linops_core import Dense
from linops_core.testing import dottest
from linops_imaging import NUFFT, interop, trajectories

NAMES = ("...", "C", "Nz", "Ny", "Nx"), ("...", "C", "K2", "K1", "K0")


@pytest.mark.usefixtures("torchvision_operators")
def test_a_fourier_transform_with_an_encoded_matrix() -> None:
    data: Any = pytest.importorskip("mrpro.data")
    operators: Any = pytest.importorskip("mrpro.operators")
    generator = torch.Generator().manual_seed(0)
    ky, kx = (torch.rand(1, 1, 1, 7, 9, generator=generator) * 8 - 4 for _ in range(2))
    trajectory = data.KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    sizes, encoded = (12, 14), (16, 18)
    matrices = (data.SpatialDimension(1, *size) for size in (sizes, encoded))
    A = interop.from_mrpro(operators.FourierOp(*matrices, trajectory), *NAMES)
    x = torch.randn(2, 3, 1, *sizes, dtype=torch.complex64, generator=generator)
    dottest(A, like=x)
    z = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(A(z).abs().square().sum(), z)
    torch.testing.assert_close(gradient, 2 * A.H(A(x)), rtol=1e-3, atol=1e-3)
    locs = torch.stack([ky, kx], -1).flatten(0, -2)
    ours = NUFFT(trajectories.convert(locs, "mrpro", sizes, encoded_size=encoded), sizes, ("K",))
    y = ours(x) * math.sqrt(math.prod(sizes) / math.prod(encoded))
    assert (A(x).flatten(2) - y.flatten(2)).norm() < 2e-3 * y.norm()
    wavelet = operators.WaveletOp(domain_shape=sizes, dim=(-2, -1), wavelet_name="db4")
    dottest(interop.from_mrpro(wavelet, ("...", "Ny", "Nx"), ("...", "W")), like=x)


@pytest.mark.usefixtures("torchvision_operators")
def test_an_operator_for_solvers_of_mrpro() -> None:
    optimizers: Any = pytest.importorskip("mrpro.algorithms.optimizers")
    matrix = torch.randn(7, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    A = Dense(matrix, ("M", "N"), ("...", "N"), ("...", "M"))
    there = interop.to_mrpro(A)
    x = torch.ones(5, dtype=torch.complex128)
    (y,) = there(x)
    (result,) = optimizers.cg(there.gram, there.H(y)[0], max_iterations=20, tolerance=1e-12)
    torch.testing.assert_close(result, x)
    composed = there.H @ there + there.gram
    torch.testing.assert_close(composed(x)[0], 2 * A.N(x))

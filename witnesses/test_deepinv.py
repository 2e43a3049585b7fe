"""DeepInverse runs on our operators, and ours run on its."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Diagonal, Identity, NamedLinop, Sampling
from linops_core.testing import dottest
from linops_imaging import ParallelBeam, masks, phantoms
from linops_imaging.interop import from_deepinv, to_deepinv
from linops_solvers import conjugate_gradients

HEAD = phantoms.shepp_logan([32, 32], torch.float64)
MASK = masks.variable_density([32, 32], acceleration=2)


@pytest.fixture(scope="module")
def deepinv(torchvision_operators: None) -> Any:
    return pytest.importorskip("deepinv")


def scanner() -> NamedLinop:
    weights = torch.linspace(0.5, 1.5, 32, dtype=torch.float64).expand(32, 32)
    S = Diagonal(weights.clone(), ("...", "Nx", "Ny"))
    return Sampling.from_mask(MASK) @ FFT(2, centered=True) @ S


def noise(x: Tensor) -> Tensor:
    return torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0))


def solution(A: NamedLinop, y: Tensor, weight: float) -> Tensor:
    """Return what minimises |A x - y|^2 + weight |x|^2."""
    regularised = A.N + weight * Identity(A.N.ishape)
    return conjugate_gradients(regularised, A.H(y), max_num_iters=500, gtol=1e-12, ltol=0)


def test_their_solvers_find_what_ours_find(deepinv: Any) -> None:
    A = ParallelBeam(torch.arange(40).double() * math.pi / 40, 46, (32, 32))
    physics = to_deepinv(A)
    x = HEAD.expand(2, 1, 32, 32)
    y = physics(x)
    y = y + 0.1 * noise(y)
    assert physics.adjointness_test(x) < 1e-9 * float(A.H(y).norm())
    for solver in ("CG", "lsqr"):
        result = physics.prox_l2(
            torch.zeros_like(x), y, gamma=0.1, solver=solver, max_iter=500, tol=1e-12
        )
        torch.testing.assert_close(result, solution(A, y, 10), rtol=0, atol=1e-7)


def test_the_pseudoinverse_of_a_complex_operator(deepinv: Any) -> None:
    weights = (0.5 + torch.arange(1024).view(32, 32).double() / 1024) * (1 + 0.5j)
    A = FFT(2, centered=True) @ Diagonal(weights, ("...", "Nx", "Ny"))
    x = (HEAD * (1 - 2j)).expand(1, 1, 32, 32)
    physics = to_deepinv(A)
    result = physics.A_dagger(physics(x), max_iter=500, tol=1e-12)
    assert (result - x).norm() < 1e-5 * x.norm()
    ours = conjugate_gradients(A.N, A.H(A(x)), max_num_iters=500, gtol=1e-12, ltol=0)
    assert (ours - x).norm() < 1e-8 * x.norm()


def test_their_optimiser_runs_on_channels(deepinv: Any) -> None:
    """Gradient descent on the data term alone, from 0, is that of the complex operator."""
    A = scanner()
    physics = to_deepinv(A, complex_channels=True)
    x = torch.stack([HEAD, 0.3 * HEAD.flip(0)]).unsqueeze(0)
    y = physics(x)
    step = 0.4
    model = deepinv.optim.optim_builder(
        iteration="PGD",
        prior=deepinv.optim.ZeroPrior(),
        data_fidelity=deepinv.optim.L2(),
        early_stop=False,
        max_iter=15,
        params_algo={"stepsize": step, "lambda": 1.0},
        custom_init=lambda y, physics: {"est": (0 * physics.A_adjoint(y),) * 2},
    )
    result = model(y, physics)
    z, data = torch.zeros(32, 32, dtype=torch.complex128), torch.complex(y[0, 0], y[0, 1])
    for _ in range(15):
        z = z - step * A.H(A(z) - data)
    torch.testing.assert_close(result, torch.stack([z.real, z.imag]).unsqueeze(0))


def test_their_mri_is_our_chain(deepinv: Any) -> None:
    physics = deepinv.physics.MRI(mask=MASK.double().view(1, 1, 32, 32), img_size=(2, 32, 32))
    names = ("Nx", "Ny"), ("Kx", "Ky")
    A = from_deepinv(physics, *(("...", *side) for side in names), complex_channels=True)
    ours = Diagonal(MASK.double(), ("...", "Kx", "Ky")) @ FFT(2, centered=True)
    x = HEAD * torch.tensor([[1 + 2j], [3j]])[:, :, None]
    torch.testing.assert_close(A(x), ours(x))
    torch.testing.assert_close(A.H(A(x)), ours.N(x))
    dottest(A, {"Nx": 32, "Ny": 32, "Kx": 32, "Ky": 32}, dtypes=[torch.complex128])
    there = to_deepinv(ours, complex_channels=True)
    z = torch.stack([HEAD, HEAD.T]).unsqueeze(0)
    torch.testing.assert_close(there.A(z), physics.A(z))


def test_their_blur_has_gradients_and_composes(deepinv: Any) -> None:
    kernel = torch.rand(1, 1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    physics = deepinv.physics.Blur(filter=kernel, padding="circular")
    names = ("C", "Nx", "Ny")
    A = from_deepinv(physics, ("...", *names), ("...", "C", "Mx", "My"))
    dottest(A, {"C": 1, "Nx": 8, "Ny": 8, "Mx": 8, "My": 8}, dtypes=[torch.float64])
    x = HEAD[12:20, 12:20].unsqueeze(0).clone().requires_grad_()
    torch.autograd.gradcheck(A, x)
    back = from_deepinv(to_deepinv(A), ("...", *names), ("...", "C", "Mx", "My"))
    assert torch.equal((2 * back)(x), 2 * A(x))

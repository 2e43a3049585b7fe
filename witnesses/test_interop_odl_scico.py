"""Operators that call those of ODL and SCICO."""

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import FFT, Dense, from_odl, from_scico, to_odl
from linops_core.testing import dottest


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def test_the_adjoint_of_an_x_ray_transform_of_odl() -> None:
    odl = pytest.importorskip("odl")
    tomo = pytest.importorskip("odl.applications.tomo")
    space = odl.uniform_discr([-1, -2], [1, 2], [8, 16], dtype="float32")
    rays = tomo.RayTransform(space, tomo.parallel_beam_geometry(space, 5, 13), impl="astra_cpu")
    A = from_odl(rays, ("...", "Nx", "Ny"), ("...", "A", "D"))
    x = random(2, 8, 16)
    expected = rays(space.element(x[1].float().numpy())).asarray()
    np.testing.assert_allclose(A(x)[1].numpy(), expected, rtol=1e-5)
    dottest(A, dtypes=[torch.float32])
    z = x.float().requires_grad_()
    (gradient,) = torch.autograd.grad(A(z).square().sum(), z)
    torch.testing.assert_close(gradient, 2 * A.H(A(z.detach())))
    back = rays.adjoint(rays(space.element(x[1].float().numpy()))).asarray()
    factor = (A.H(A(x[1])).numpy() / back)[abs(back) > 1e-3 * back.max()]
    assert 0.1 < factor.mean() < 0.3 and factor.std() < 1e-4  # the weights of the spaces


def test_a_gradient_and_a_fourier_transform_of_odl() -> None:
    odl = pytest.importorskip("odl")
    gradient = odl.Gradient(odl.uniform_discr([0, 0], [1, 3], [6, 7]))
    D = from_odl(gradient, ("...", "Nx", "Ny"), ("...", "G", "Mx", "My"))
    dottest(D)
    complex_space = odl.uniform_discr([0, 0], [1, 3], [6, 7], dtype="complex128")
    with pytest.raises(
        ValueError, match="from_odl: the adjoint of the operator must be a multiple"
    ):
        from_odl(odl.trafos.FourierTransform(complex_space), ("Nx", "Ny"), ("Kx", "Ky"))
    dft = from_odl(odl.trafos.DiscreteFourierTransform(complex_space), ("Nx", "Ny"), ("Kx", "Ky"))
    dottest(dft, dtypes=[torch.complex128])
    x = random(6, 7, dtype=torch.complex128)
    torch.testing.assert_close(dft(x), torch.fft.fft2(x))


def test_operators_of_scico() -> None:
    linop = pytest.importorskip("scico.linop")
    kernel = random(3, 3).float().numpy()
    blur = linop.Convolve(kernel, input_shape=(5, 6))
    A = from_scico(blur, ("...", "Nx", "Ny"), ("...", "Mx", "My"))
    x = random(2, 5, 6)
    np.testing.assert_allclose(A(x)[1].numpy(), blur(x[1].float().numpy()), rtol=1e-4, atol=1e-4)
    dottest(A, dtypes=[torch.float32, torch.complex64])
    dft = linop.DFT((5, 6))
    F = from_scico(dft, ("...", "Nx", "Ny"), ("...", "Kx", "Ky"))
    z = random(2, 5, 6, dtype=torch.complex64)
    torch.testing.assert_close(F(z), torch.fft.fft2(z), rtol=1e-4, atol=1e-4)
    dottest(F, dtypes=[torch.complex64])
    with pytest.raises(
        ValueError, match="from_scico: the operator must have one input and one out"
    ):
        from_scico(linop.FiniteDifference((5, 6)), ("Nx", "Ny"), ("G",))


def test_an_operator_for_solvers_of_odl() -> None:
    solvers = pytest.importorskip("odl.solvers")
    matrix, truth = random(7, 5), random(5)
    A = to_odl(Dense(matrix, ("M", "N"), ("N",), ("M",)))
    x = A.domain.zero()
    solvers.conjugate_gradient_normal(A, x, A(A.domain.element(truth.numpy())), niter=20)
    np.testing.assert_allclose(x.asarray(), truth.numpy(), atol=1e-8)
    F = to_odl(FFT(2, centered=True), {"Nx": 4, "Ny": 5})
    z = F.domain.element(random(4, 5, dtype=torch.complex128).numpy())
    np.testing.assert_allclose(F.adjoint(F(z)).asarray(), z.asarray(), atol=1e-12)
    y = F.range.element(1j * z.asarray().real)
    np.testing.assert_allclose(F(z).inner(y), z.inner(F.adjoint(y)))

"""Operators that call those of ODL and SCICO."""

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import FFT, Dense, RealPart, from_odl, from_scico, to_odl, to_scico
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


@pytest.mark.parametrize("is_compiled", [False, True])
def test_jax_differentiates_and_batches_an_operator_for_scico(is_compiled: bool) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("scico")
    matrix = random(4, 6, dtype=torch.complex64)
    A = to_scico(Dense(matrix, ("M", "N"), ("...", "N"), ("...", "M")))
    M = matrix.numpy()
    x, y, z = (random(*shape, dtype=torch.complex64).numpy() for shape in ((6,), (4,), (3, 6)))
    if is_compiled:
        A.jit()
    expected = [(A(x), M @ x), (A.H(y), M.conj().T @ y), (A.T(y), M.T @ y), (A.gram(x),)]
    expected[-1] += (M.conj().T @ M @ x,)

    def squares(x):  # type: ignore[no-untyped-def]
        return (abs(A(x)) ** 2).sum() / 2

    real = (M.conj().T @ M).real
    expected += [
        (jax.grad(squares)(x).conj(), A.gram(x)),
        (jax.jvp(A, (x,), (1j * x,))[1], 1j * M @ x),
        (jax.vmap(A)(z), z @ M.T),
        (jax.vmap(A, in_axes=1, out_axes=1)(z.T), M @ z.T),
        (jax.vmap(jax.grad(squares))(z).conj(), z @ (M.conj().T @ M).T),
        (jax.hessian(squares)(x.real), real),
        (A(x.real), M @ x.real),
    ]
    for result, right in expected:
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)
    assert A(x).dtype == A.output_dtype == A.input_dtype == np.complex64


def test_operators_for_scico_take_complex_arrays_and_double_precision_only_as_jax_does() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("scico")
    matrix = random(4, 6).float()
    A = to_scico(Dense(matrix, ("M", "N"), ("N",), ("M",)))  # without a batch
    z = random(3, 6, dtype=torch.complex64).numpy()
    np.testing.assert_allclose(jax.vmap(A)(z), z @ matrix.numpy().T, rtol=1e-4, atol=1e-4)
    assert A(z[0]).dtype == np.complex64 and A(z[0].real).dtype == A.H(A(z[0].real)).dtype
    with pytest.raises(
        ValueError, match=r"to_scico: .* must be in a precision of JAX, got float64"
    ):
        to_scico(Dense(matrix.double(), ("M", "N"), ("N",), ("M",)))
    with pytest.raises(ValueError, match="to_scico"):
        to_scico(RealPart(("N",)), {"N": 3})


def test_an_operator_for_solvers_of_scico() -> None:
    functional, loss, optimize = (
        pytest.importorskip(f"scico.{name}") for name in ("functional", "loss", "optimize")
    )
    cg = pytest.importorskip("scico.solver").cg
    matrix, truth = random(7, 5).float(), random(5).float().numpy()
    A = to_scico(Dense(matrix, ("M", "N"), ("N",), ("M",)))
    y = A(truth)
    result, _ = cg(A.gram_op, A.H(y), tol=1e-6)
    np.testing.assert_allclose(result, truth, atol=1e-4)
    f = loss.SquaredL2Loss(y=y, A=A)
    norm = torch.linalg.matrix_norm(matrix, 2).item()
    solver = optimize.AcceleratedPGM(
        f=f, g=1e-6 * functional.L1Norm(), L0=norm**2, x0=0 * truth, maxiter=300
    )
    np.testing.assert_allclose(solver.solve(), truth, atol=1e-3)
    F = to_scico(FFT(2, centered=True), {"Nx": 4, "Ny": 5}, torch.float32)
    G = from_scico(F @ F.H, ("...", "Kx", "Ky"), ("...", "Lx", "Ly"))
    z = random(2, 4, 5, dtype=torch.complex64)
    torch.testing.assert_close(G(z), z, rtol=1e-4, atol=1e-4)

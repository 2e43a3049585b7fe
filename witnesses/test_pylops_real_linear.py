"""What is linear over the reals only: operators of PyLops here, and ours against theirs."""

import numpy as np
import pytest
import torch

from linops_core import DCT, NamedLinop, RealFFT, RealForm, from_pylops
from linops_core.testing import dottest
from linops_solvers import lsqr

pylops = pytest.importorskip("pylops")


def real_fft() -> NamedLinop:
    return from_pylops(pylops.signalprocessing.FFT(6, real=True), ("N",), ("K",))


def sliding() -> NamedLinop:
    inner = pylops.MatrixMult(np.arange(12.0).reshape(4, 3))
    operator = pylops.signalprocessing.Sliding1D(inner, dim=6, dimd=8, nwin=4, nover=0)
    return from_pylops(operator, ("W", "N"), ("M",))


def mdc() -> NamedLinop:
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((3, 2, 2)) + 1j * rng.standard_normal((3, 2, 2))
    operator = pylops.waveeqprocessing.MDC(kernel, nt=5, nv=1, twosided=False)
    return from_pylops(operator, ("T", "R", "V"), ("T", "S", "V"))


@pytest.mark.parametrize("make", [real_fft, sliding, mdc])
def test_operators_of_pylops_have_adjoints_and_solvers(make) -> None:  # type: ignore[no-untyped-def]
    A = make()
    dottest(A, dtypes=[torch.float64])
    x = torch.randn(
        [A.size(dim) for dim in A.ishape],
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    y = A(x)
    torch.testing.assert_close(A(lsqr(A, y, atol=1e-14, btol=1e-14, max_num_iters=500)), y)


def test_the_half_spectrum_and_its_adjoint() -> None:
    x = np.random.default_rng(0).standard_normal(6)
    theirs = pylops.signalprocessing.FFT(6, real=True, norm="none")
    ours = RealFFT(("N",), 6, norm="backward")
    y = theirs @ x
    # They scale all values but the first and the last by the root of 2.
    scale = np.sqrt([1, 2, 2, 1])
    np.testing.assert_allclose(ours(torch.from_numpy(x)).numpy() * scale, y, atol=1e-12)
    np.testing.assert_allclose(
        ours.H(torch.from_numpy(y * scale)).numpy(), theirs.H @ y, atol=1e-12
    )
    assert RealForm(ours).to_dense().shape == (8, 12)


def test_the_cosine_transform() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    theirs = pylops.signalprocessing.DCT(dims=(3, 4, 5), type=2, axes=(0, 2))
    ours = DCT(("A", "C"), ("A", "B", "C"))
    np.testing.assert_allclose(ours(torch.from_numpy(x)).numpy(), theirs @ x, atol=1e-12)

"""Wavelet transforms that are made from those of other libraries."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import Identity, NamedLinop
from linops_core.testing import dottest
from linops_imaging import interop

pywt = pytest.importorskip("pywt")
DIMS = ("Nx", "Ny", "Nz")


def check(A: NamedLinop, expected: Any, sizes: tuple[int, ...]) -> None:
    x = random(2, *sizes)
    np.testing.assert_allclose(A(x)[1].numpy(), expected, atol=1e-10)
    dottest(A, like=x)
    z = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(A(z).abs().square().sum(), z)
    torch.testing.assert_close(gradient, 2 * A.H(A(x)))
    assert A(x.to(torch.complex64)).dtype == torch.complex64


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore:Level value of")
@pytest.mark.parametrize("wavelet", ["haar", "db3", "bior2.4", "dmey"])
@pytest.mark.parametrize("mode", ["symmetric", "zero", "periodization", "reflect", "smooth"])
@pytest.mark.parametrize(("sizes", "level"), [((17,), 2), ((9, 12), 2), ((5, 6, 7), 1)])
def test_pywavelets(wavelet: str, mode: str, sizes: tuple[int, ...], level: int) -> None:
    x = random(2, *sizes)[1].numpy()
    coefficients = pywt.wavedecn(x, wavelet, mode, level)
    expected, _ = pywt.coeffs_to_array(coefficients)
    dims = DIMS[: len(sizes)]
    check(interop.from_pywt(wavelet, dims, sizes, mode, level), expected, sizes)


def test_an_orthonormal_transform_of_even_sizes_has_the_identity_as_its_normal() -> None:
    A = interop.from_pywt("db2", ("Nx", "Ny"), (12, 16), "periodization", 2)
    assert isinstance(A.N, Identity)


@pytest.mark.parametrize("wavelet", ["haar", "db3", "bior2.4"])
@pytest.mark.parametrize("mode", ["reflect", "zero", "constant", "periodic", "symmetric"])
@pytest.mark.parametrize(("sizes", "level"), [((33,), 2), ((17, 20), 1), ((10, 10, 11), 1)])
@pytest.mark.filterwarnings("ignore:Level value of", "ignore:.*Invariant", "ignore:Sparse")
def test_ptwt(wavelet: str, mode: str, sizes: tuple[int, ...], level: int) -> None:
    pytest.importorskip("ptwt")
    x = random(2, *sizes)[1].numpy()
    expected, _ = pywt.coeffs_to_array(pywt.wavedecn(x, wavelet, mode, level))
    check(interop.from_ptwt(wavelet, DIMS[: len(sizes)], sizes, mode, level), expected, sizes)

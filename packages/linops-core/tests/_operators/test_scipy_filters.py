"""Convolutions and shifts are those of SciPy."""

import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from linops_core import Convolution, FourierShift

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 6))
KERNELS = [RNG.standard_normal(shape) for shape in ((3, 5), (2, 4), (1, 1), (6, 3))]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.shape))
@pytest.mark.parametrize("mode", ["same", "valid", "full"])
def test_the_modes_are_those_of_convolve(mode: str, kernel: np.ndarray) -> None:
    offset = [(n - 1) // 2 for n in kernel.shape] if mode == "same" else None
    A = Convolution(torch.from_numpy(kernel), mode=mode, offset=offset)
    expected = signal.convolve(X, kernel, mode=mode, method="direct")
    np.testing.assert_allclose(A(torch.from_numpy(X)).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.shape))
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("zeros", "constant"),
        ("circular", "grid-wrap"),
        ("reflect", "mirror"),
        ("replicate", "nearest"),
    ],
)
def test_the_padding_is_that_of_ndimage(ours: str, theirs: str, kernel: np.ndarray) -> None:
    A = Convolution(torch.from_numpy(kernel), padding_mode=ours)  # whose centre is ours by default
    expected = ndimage.convolve(X, kernel, mode=theirs)
    np.testing.assert_allclose(A(torch.from_numpy(X)).numpy(), expected, atol=1e-12)


def test_shifts_are_those_of_fourier_shift() -> None:
    shifts = [0.3, -1.7]
    expected = np.fft.ifftn(ndimage.fourier_shift(np.fft.fftn(X), shifts))
    result = FourierShift(("Nx", "Ny"), shifts)(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(result, expected, atol=1e-12)

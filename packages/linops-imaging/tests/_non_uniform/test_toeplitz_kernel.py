import math
import sys

import pytest
import torch
from torch import Tensor

from linops_imaging import NUFFT, toeplitz_kernel


@pytest.mark.parametrize(("is_weighted", "is_there"), [(False, True), (True, True), (True, False)])
def test_it_is_the_transform_of_the_sum(
    is_weighted: bool, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_there:
        monkeypatch.setitem(sys.modules, "finufft", None)
    sizes = (5, 4)
    locs = (torch.rand(2, 6, 2, dtype=torch.float64) - 0.5) * torch.tensor(sizes)
    weights = torch.rand(2, 6, dtype=torch.float64) if is_weighted else None
    A = NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T"))
    result = torch.fft.ifftn(toeplitz_kernel(A, weights), dim=(1, 2))
    assert result.shape == (2, 10, 8)
    for d0 in range(-4, 5):
        for d1 in range(-3, 4):
            phase = 2j * math.pi * (locs[..., 0] * d0 / 5 + locs[..., 1] * d1 / 4)
            expected = ((1.0 if weights is None else weights) * phase.exp()).sum(1) / 20
            torch.testing.assert_close(result[:, d0, d1], expected, atol=1e-9, rtol=0)


A = NUFFT(torch.zeros(3, 2), (4, 4), ("K",))


@pytest.mark.parametrize(
    ("linop", "weights", "error", "match"),
    [
        (A.H, None, TypeError, "A must be a NUFFT"),
        (A, [1.0], TypeError, "weights must be a tensor of real numbers, got <class 'list'>"),
        (A, torch.ones(3) * 1j, TypeError, "weights must be a tensor of real .*complex64"),
        (A, torch.ones(4), ValueError, r"weights must have the shape \(3,\) .*, got \(4,\)"),
    ],
)
def test_bad_arguments_are_refused(
    linop: NUFFT, weights: Tensor, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"toeplitz_kernel: {match}"):
        toeplitz_kernel(linop, weights)


@pytest.mark.parametrize("weights", [None, torch.ones(0, 3, dtype=torch.float64)])
def test_no_frames_have_no_kernels(weights: Tensor | None) -> None:
    A = NUFFT(torch.zeros(0, 3, 2), (5, 4), ("T", "K"), batch_shape=("T",))
    result = toeplitz_kernel(A, weights)
    assert result.shape == (0, 10, 8)
    assert result.dtype == (torch.float32 if weights is None else torch.float64)

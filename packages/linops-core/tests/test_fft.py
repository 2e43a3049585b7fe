import math
from typing import Any

import pytest
import torch

from linops_core import FFT, Identity

NORMS = ["ortho", "backward", "forward"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_point_at_the_origin_becomes_a_constant(ndim: int, norm: str) -> None:
    lengths = [4, 3, 5][:ndim]
    n = math.prod(lengths)
    x = torch.zeros(lengths, dtype=torch.complex128)
    x[(0,) * ndim] = 1
    scale = {"ortho": n**-0.5, "backward": 1.0, "forward": 1 / n}[norm]
    torch.testing.assert_close(FFT(ndim, norm=norm)(x), torch.full_like(x, scale))
    centre = tuple(length // 2 for length in lengths)
    x = torch.zeros_like(x)
    x[centre] = 1
    torch.testing.assert_close(FFT(ndim, norm=norm, centered=True)(x), torch.full_like(x, scale))


def test_a_shift_becomes_a_phase() -> None:
    n, shift = 6, 2
    x = torch.randn(n, dtype=torch.complex128)
    k = torch.arange(n, dtype=torch.float64)
    phase = torch.exp(-2j * math.pi * k * shift / n)
    F = FFT(1)
    torch.testing.assert_close(F(x.roll(shift)), phase * F(x))


@pytest.mark.parametrize("n", [32, 33])
def test_a_centred_gaussian_becomes_a_centred_gaussian(n: int) -> None:
    # exp(-pi t^2 / s^2) has the transform s exp(-pi s^2 f^2), with f = k / n.
    s = 6.0
    t = torch.arange(n, dtype=torch.float64) - n // 2
    x = torch.exp(-math.pi * (t / s) ** 2)
    expected = s * torch.exp(-math.pi * (s * t / n) ** 2)
    y = FFT(1, norm="backward", centered=True)(x)
    torch.testing.assert_close(y, expected.to(torch.complex128), rtol=0, atol=1e-9)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_the_normal_is_a_multiple_of_the_identity(norm: str, centered: bool) -> None:
    F = FFT(2, ("C",), norm=norm, centered=centered)
    x = torch.randn(2, 3, 4, dtype=torch.complex128)
    factor = {"ortho": 1.0, "backward": 12.0, "forward": 1 / 12}[norm]
    torch.testing.assert_close(F.N(x), factor * x)
    torch.testing.assert_close(F.H(F(x)), factor * x)
    torch.testing.assert_close(F.H.N(x), factor * x)
    assert isinstance(F.N, Identity) == (norm == "ortho")


def test_batches_can_be_sliced_and_the_grid_cannot() -> None:
    F = FFT(2, ("C",))
    assert str(F.role("C")) == "batch"
    for dim in ("Nx", "Ny", "Kx", "Ky"):
        assert str(F.role(dim)) == "opaque"
        assert F.why_opaque(dim) == "a Fourier transform mixes all of its grid"


def test_names_of_the_grid_can_be_given() -> None:
    F = FFT(1, grid_shapes=(("T",), ("F",)))
    assert (F.ishape, F.oshape) == (("...", "T"), ("...", "F"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), r"FFT: ndim must be a positive integer, got 0"),
        ((1.0,), r"FFT: ndim must be a positive integer, got 1.0"),
        ((1, None, None, "unitary"), r"FFT: norm must be one of .*, got 'unitary'"),
        ((2, None, (("A",), ("B",))), r"FFT: grid_shapes must be 2 image and 2 k-space"),
        ((1, None, (("A",),)), r"FFT: grid_shapes must be 1 image and 1 k-space"),
    ],
)
def test_what_is_no_transform_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FFT(*arguments)

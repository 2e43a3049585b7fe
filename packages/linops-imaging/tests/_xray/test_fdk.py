import math
from typing import Literal

import pytest
import torch
from torch import Tensor

from linops_core import FourierShift
from linops_imaging import ConeBeam, FanBeam, fbp, fdk
from linops_imaging._xray import _fdk
from nameddim import ND

N = 32
CIRCLE = torch.arange(72, dtype=torch.float64) * math.pi / 36


def ball(radius: float, *centre: float) -> Tensor:
    at = torch.arange(N, dtype=torch.float64)
    x, y, z = ((at - c).square() for c in centre)
    inside = (x[:, None, None] + y[:, None] + z).sqrt()
    return (radius + 0.5 - inside).clamp(0, 1)


def scan(
    angles: Tensor, detector: Literal["flat", "curved"], n_columns: int = 74, offset: float = 0.0
) -> ConeBeam:
    return ConeBeam(
        angles,
        (70, n_columns),
        N,
        80,
        40,
        (1.1, 1.0),
        detector_offset=(2.3, offset),
        origin=(15, 15.5, 16),
        detector=detector,
    )


@pytest.mark.parametrize("detector", ["flat", "curved"])
@pytest.mark.parametrize("kind", ["circle", "short", "one side", "offset"])
def test_it_finds_a_ball_beside_the_middle_plane(
    detector: Literal["flat", "curved"], kind: str
) -> None:
    x = ball(8, 17, 14, 20)
    least = math.pi + 2 * math.asin(0.3)
    angles = torch.arange(60).double() * least / 60 if kind == "short" else CIRCLE
    offset = {"one side": 14.0, "offset": 3.4}.get(kind, 0.0)
    A = scan(angles, detector, 50 if kind == "one side" else 74, offset)
    result = fdk(A(x), A, "hann")
    assert (result[15:20, 12:17, 18:23].mean() - 1).abs() < 0.02
    assert result[ball(10, 17, 14, 20) == 0].abs().mean() < 0.02
    assert (result - x).norm() < 0.25 * x.norm()


@pytest.mark.parametrize("detector", ["flat", "curved"])
def test_the_middle_plane_is_that_of_a_fan(detector: Literal["flat", "curved"]) -> None:
    image = torch.rand(12, 10, dtype=torch.float64)
    lengths = 40.0, 20.0
    A = ConeBeam(CIRCLE, (3, 28), (12, 10, 3), *lengths, (1, 0.9), detector=detector)
    fan = FanBeam(CIRCLE, 28, (12, 10), *lengths, 0.9, detector=detector)
    result = fdk(A(image[..., None].expand(-1, -1, 3)), A)
    torch.testing.assert_close(result[..., 1], fbp(fan(image), fan))


def test_a_part_of_the_volume_is_found_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    least = math.pi + 2 * math.asin(0.3)
    A = scan(torch.arange(12).double() * least / 12, "flat")
    y = torch.rand(2, 12, 70, 74, dtype=torch.float64)
    part = A.split(A, {ND("Nz"): slice(4, 9), ND("Nx"): slice(17, 30)})
    whole = fdk(y, A)
    torch.testing.assert_close(fdk(y, part), whole[:, 17:30, :, 4:9])
    monkeypatch.setattr(_fdk, "_AT_ONCE", 1)
    torch.testing.assert_close(fdk(y, A), whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.complex64, torch.int32])
def test_sinograms_of_any_dtype(dtype: torch.dtype) -> None:
    A = ConeBeam(CIRCLE[::6], (4, 7), (5, 4, 3), 20, 5)
    y = (9 * torch.rand(2, 12, 4, 7)).to(dtype)
    kept = dtype if dtype.is_complex else torch.float32
    expected = fdk(y.to(torch.complex128), A).to(torch.complex64)
    result = fdk(y, A)
    assert result.dtype == kept
    torch.testing.assert_close(result.to(torch.complex64), expected, rtol=1e-3, atol=1e-3)
    assert fdk(y[:0], A).shape == (0, 5, 4, 3)


def test_gradients_and_compositions() -> None:
    A = ConeBeam(CIRCLE[::12], (3, 5), (3, 4, 3), 20, 5)
    y = torch.rand(6, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: fdk(y, A), y, fast_mode=True)
    shift = FourierShift(("Du",), [1.0], shape=("...", "A", "Dv", "Du"))
    x = torch.rand(3, 4, 3, dtype=torch.float64)
    B = 2 * shift @ A
    torch.testing.assert_close(fdk(B(x), B).real, fdk(A(x), A))
    with pytest.raises(TypeError, match="fdk: A must be one X-ray transform composed with numbers"):
        fdk(x, shift @ shift)


def test_bad_arguments_are_refused() -> None:
    A = ConeBeam(CIRCLE, (3, 5), (3, 4, 3), 20, 5)
    y = torch.rand(72, 3, 5)
    with pytest.raises(TypeError, match=r"fdk: the sinogram must be a torch\.Tensor, got"):
        fdk([[0.0]], A)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fdk: A must be a ConeBeam, got"):
        fdk(y, A.H)
    angles = torch.cat([CIRCLE[:-1], torch.tensor([torch.nan])])
    with pytest.raises(ValueError, match="fdk: the angles of A must be finite, got NaN or inf"):
        fdk(y, ConeBeam(angles, (3, 5), (3, 4, 3), 20, 5))
    with pytest.raises(ValueError, match=r"fdk: window must be one of .*, got 'box'"):
        fdk(y, A, "box")
    with pytest.raises(ValueError, match=r"72 views of \(3, 5\) detectors, got shape \(3, 5\)"):
        fdk(y[0], A)
    with pytest.raises(ValueError, match="fdk: the scan must be a circle, made from angles"):
        fdk(y, ConeBeam(CIRCLE, (3, 5), (3, 4, 3), 20, 5, heights=0 * CIRCLE))
    with pytest.raises(ValueError, match="fdk: A must have the whole detector, got a tile"):
        fdk(y[:, :2], A.split(A, {ND("Dv"): slice(0, 2)}))
    with pytest.raises(ValueError, match="short scan, without gaps"):
        fdk(y[:30], ConeBeam(CIRCLE[:30], (3, 5), (3, 4, 3), 20, 5))

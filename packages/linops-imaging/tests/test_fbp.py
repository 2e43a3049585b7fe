import math

import pytest
import torch

from linops_imaging import ParallelBeam, fbp, phantoms

ANGLES = torch.zeros(2)


@pytest.mark.parametrize("window", ["ramp", "shepp-logan", "cosine", "hamming", "hann"])
@pytest.mark.parametrize("span", [math.pi, 2 * math.pi])
@pytest.mark.parametrize("spacing", [1.0, 0.7])
def test_filtered_back_projection_finds_the_image(window: str, span: float, spacing: float) -> None:
    image = torch.nn.functional.avg_pool2d(phantoms.shepp_logan([256, 256])[None], 4)[0]
    n_detectors = math.ceil(92 / spacing)
    A = ParallelBeam(torch.arange(160) * span / 160, n_detectors, 64, spacing)
    found = fbp(A(image), A, window)
    assert (found - image)[12:-12, 12:-12].mean().abs() < 0.01
    limit = 0.45 if window in ("hamming", "hann") else 0.35
    assert (found - image).norm() < limit * image.norm()


def test_angles_of_a_scan_need_not_be_equally_spaced() -> None:
    image = phantoms.shepp_logan([64, 64], torch.complex64)
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(400, generator=generator) * 3 * math.pi
    A = ParallelBeam(angles, 92, 64)
    even = ParallelBeam(torch.arange(400) * math.pi / 400, 92, 64)
    found, expected = fbp(A(image), A), fbp(even(image), even)
    assert (found - expected).norm() < 0.1 * expected.norm()


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float64])
def test_sinograms_of_any_dtype(dtype: torch.dtype) -> None:
    A = ParallelBeam(torch.arange(4) * math.pi / 4, 7, (5, 4))
    counts = torch.arange(28).view(4, 7)
    found = fbp(counts.to(dtype), A)
    torch.testing.assert_close(found.float(), fbp(counts.float(), A))
    assert fbp(torch.zeros(0, 4, 7, dtype=dtype), A).shape == (0, 5, 4)


def test_bad_arguments() -> None:
    A = ParallelBeam(ANGLES, 3, 4)
    with pytest.raises(TypeError, match="fbp: A must be a ParallelBeam, got"):
        fbp(torch.zeros(4, 4), A.H)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"fbp: the sinogram must be a torch\.Tensor, got"):
        fbp([[0.0]], A)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fbp: window must be one of .*, got 'box'"):
        fbp(torch.zeros(2, 3), A, "box")
    with pytest.raises(ValueError, match=r"2 angles and 3 detectors, got shape \(3, 3\)"):
        fbp(torch.zeros(3, 3), A)

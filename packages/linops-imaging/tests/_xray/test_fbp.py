import math
from collections.abc import Callable

import pytest
import torch

from linops_imaging import FanBeam, ParallelBeam, fbp, phantoms
from linops_imaging._xray import _fbp

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


@pytest.mark.parametrize("window", ["ramp", "hann"])
@pytest.mark.parametrize(("near", "far"), [(80.0, 0.0), (120.0, 90.0), (4000.0, 0.0)])
def test_fans_of_a_whole_circle_give_the_image(window: str, near: float, far: float) -> None:
    image = torch.nn.functional.avg_pool2d(phantoms.shepp_logan([256, 256])[None], 4)[0]
    spacing = 0.8 * (near + far) / near
    A = FanBeam(torch.arange(320) * math.pi / 160 + 0.3, 140, 64, near, far, spacing)
    found = fbp(A(image), A, window)
    assert (found - image)[12:-12, 12:-12].mean().abs() < 0.01
    assert (found - image).norm() < (0.45 if window == "hann" else 0.35) * image.norm()


def test_a_fan_weighs_pixels_by_their_distance_from_the_source() -> None:
    at = torch.arange(64) - 31.5
    r = (at.square().unsqueeze(1) + at.square()).sqrt()
    A = FanBeam(torch.arange(320) * math.pi / 160, 140, 64, 60, 0, 0.6)
    found = fbp(A((28.5 - r).clamp(0, 1)), A, "hann")
    assert (found[r < 5].mean() - 1).abs() < 0.01
    assert (found[(r > 20) & (r < 25)].mean() - 1).abs() < 0.01


def test_a_far_source_gives_what_parallel_rays_give() -> None:
    image = phantoms.shepp_logan([64, 64], torch.complex64)
    angles = torch.arange(180) * math.pi / 90
    fan, parallel = FanBeam(angles, 92, 64, 1e6, 0.0), ParallelBeam(angles[:90], 92, 64)
    found = fbp(torch.stack([fan(image), 1j * fan(image)]), fan)
    expected = fbp(parallel(image), parallel)
    # One interpolates between detectors, the other is the transpose of a projection.
    assert (found[0] - expected).norm() < 0.1 * expected.norm()
    torch.testing.assert_close(found[1], 1j * found[0])


@pytest.mark.parametrize("is_fan", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_stack_is_computed_some_images_at_a_time(
    monkeypatch: pytest.MonkeyPatch, is_fan: bool, dtype: torch.dtype
) -> None:
    angles = torch.arange(4, dtype=torch.float64) * math.pi / 2

    def beam_of(*batch: str) -> ParallelBeam | FanBeam:
        if is_fan:
            return FanBeam(angles, 7, (5, 4), 9.0, 4.0, batch_shape=batch)
        return ParallelBeam(angles, 7, (5, 4), batch_shape=batch)

    A = beam_of("Z", "T")
    sinogram = torch.randn(2, 3, 4, 7, dtype=dtype, requires_grad=True)
    expected = fbp(sinogram, A)  # at once, because gradients are recorded
    monkeypatch.setattr(_fbp, "_AT_ONCE", 2 * 4 * 7)
    torch.testing.assert_close(fbp(sinogram.detach(), A), expected.detach())
    torch.autograd.gradcheck(lambda y: fbp(y, A), sinogram, fast_mode=True)
    torch.testing.assert_close(fbp(sinogram[1, 2].detach(), beam_of()), expected[1, 2].detach())


@pytest.mark.parametrize(("is_fan", "dtype"), [(False, torch.complex64), (True, torch.float32)])
@pytest.mark.usefixtures("one_thread")
def test_a_stack_needs_memory_for_some_images(
    allocated: Callable[[Callable[[], object]], int], is_fan: bool, dtype: torch.dtype
) -> None:
    angles = torch.arange(6) * math.pi / (3 if is_fan else 6)
    A = FanBeam(angles, 1024, 64, 90, 0) if is_fan else ParallelBeam(angles, 1024, 64)
    sinogram = torch.randn(60, 6, 1024, dtype=dtype)
    results = []
    peak = allocated(lambda: results.append(fbp(sinogram, A)))
    assert peak - results[-1].nbytes < 1.2 * sinogram.nbytes
    torch.testing.assert_close(results[-1][7], fbp(sinogram[7], A))


@pytest.mark.parametrize("beam", ["parallel", "fan"])
def test_missing_angles_are_told(beam: str) -> None:
    angles = torch.arange(80) * math.pi / 180 * (1 if beam == "parallel" else 3)
    other = (5, 5) if beam == "fan" else ()
    A = (FanBeam if beam == "fan" else ParallelBeam)(angles, 7, (4, 4), *other)
    y = torch.ones(80, 7)
    gap = r"180 degrees .* gap of 101\.0" if beam == "parallel" else r"360 degrees .* of 123\.0"
    with pytest.raises(ValueError, match=f"fbp: the angles must cover {gap} degrees"):
        fbp(y, A)
    assert fbp(y, A, allow_gaps=True).isfinite().all()


def test_bad_arguments() -> None:
    A = ParallelBeam(ANGLES, 3, 4)
    with pytest.raises(TypeError, match="fbp: A must be a ParallelBeam or a FanBeam, got"):
        fbp(torch.zeros(4, 4), A.H)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"fbp: the sinogram must be a torch\.Tensor, got"):
        fbp([[0.0]], A)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fbp: window must be one of .*, got 'box'"):
        fbp(torch.zeros(2, 3), A, "box")
    with pytest.raises(ValueError, match=r"2 angles and 3 detectors, got shape \(3, 3\)"):
        fbp(torch.zeros(3, 3), A)


@pytest.mark.parametrize("angles", [[0.0], [0.0, 0.1], [0.0, 0.1, 0.2]])
def test_more_than_half_of_the_angles_may_not_be_missing(angles: list[float]) -> None:
    A = ParallelBeam(torch.tensor(angles), 9, (6, 6))
    with pytest.raises(ValueError, match="without gaps"):
        fbp(torch.ones(len(angles), 9), A)
    assert (
        fbp(torch.ones(2, 9), ParallelBeam(torch.tensor([0.0, math.pi / 2]), 9, 6)).isfinite().all()
    )

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from linops_core import Diagonal, FourierShift, Roll
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
    result = fbp(A(image), A, window)
    assert (result - image)[12:-12, 12:-12].mean().abs() < 0.01
    limit = 0.45 if window in ("hamming", "hann") else 0.35
    assert (result - image).norm() < limit * image.norm()


def test_angles_of_a_scan_need_not_be_equally_spaced() -> None:
    image = phantoms.shepp_logan([64, 64], torch.complex64)
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(400, generator=generator) * 3 * math.pi
    A = ParallelBeam(angles, 92, 64)
    even = ParallelBeam(torch.arange(400) * math.pi / 400, 92, 64)
    result, expected = fbp(A(image), A), fbp(even(image), even)
    assert (result - expected).norm() < 0.1 * expected.norm()


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float64])
def test_sinograms_of_any_dtype(dtype: torch.dtype) -> None:
    A = ParallelBeam(torch.arange(4) * math.pi / 4, 7, (5, 4))
    counts = torch.arange(28).view(4, 7)
    result = fbp(counts.to(dtype), A)
    torch.testing.assert_close(result.float(), fbp(counts.float(), A))
    assert fbp(torch.zeros(0, 4, 7, dtype=dtype), A).shape == (0, 5, 4)


@pytest.mark.parametrize("window", ["ramp", "hann"])
@pytest.mark.parametrize(("near", "far"), [(80.0, 0.0), (120.0, 90.0), (4000.0, 0.0)])
def test_fans_of_a_whole_circle_give_the_image(window: str, near: float, far: float) -> None:
    image = torch.nn.functional.avg_pool2d(phantoms.shepp_logan([256, 256])[None], 4)[0]
    spacing = 0.8 * (near + far) / near
    A = FanBeam(torch.arange(320) * math.pi / 160 + 0.3, 140, 64, near, far, spacing)
    result = fbp(A(image), A, window)
    assert (result - image)[12:-12, 12:-12].mean().abs() < 0.01
    assert (result - image).norm() < (0.45 if window == "hann" else 0.35) * image.norm()


@pytest.mark.parametrize("detector", ["flat", "curved"])
def test_a_fan_weighs_pixels_by_their_distance_from_the_source(
    detector: Literal["flat", "curved"],
) -> None:
    at = torch.arange(64) - 31.5
    r = (at.square().unsqueeze(1) + at.square()).sqrt()
    A = FanBeam(torch.arange(320) * math.pi / 160, 140, 64, 60, 0, 0.6, detector=detector)
    result = fbp(A((28.5 - r).clamp(0, 1)), A, "hann")
    assert (result[r < 5].mean() - 1).abs() < 0.01
    assert (result[(r > 20) & (r < 25)].mean() - 1).abs() < 0.01


def test_a_far_source_gives_what_parallel_rays_give() -> None:
    image = phantoms.shepp_logan([64, 64], torch.complex64)
    angles = torch.arange(180) * math.pi / 90
    fan, parallel = FanBeam(angles, 92, 64, 1e6, 0.0), ParallelBeam(angles[:90], 92, 64)
    result = fbp(torch.stack([fan(image), 1j * fan(image)]), fan)
    expected = fbp(parallel(image), parallel)
    # One interpolates between detectors, the other is the transpose of a projection.
    assert (result[0] - expected).norm() < 0.1 * expected.norm()
    torch.testing.assert_close(result[1], 1j * result[0])


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


def head(size: int = 48) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(phantoms.shepp_logan([4 * size] * 2)[None], 4)[0].double()


@pytest.mark.parametrize("detector", ["flat", "curved"])
@pytest.mark.parametrize("offset", [0.0, 3.4])
@pytest.mark.parametrize("degrees", [0, 30, 120])
def test_a_short_scan_is_as_exact_as_a_circle(
    detector: Literal["flat", "curved"], offset: float, degrees: float
) -> None:
    image, near, far = head(), 90.0, 45.0
    least = math.pi + 2 * math.asin(23.5 * math.sqrt(2) / near)

    def error(angles: torch.Tensor) -> float:
        A = FanBeam(angles.double(), 126, 48, near, far, detector_offset=offset, detector=detector)
        return float((fbp(A(image), A, "hann") - image).norm() / image.norm())

    covered = least + math.radians(degrees)
    short = torch.arange(160).double() * covered / 160 + 1
    order = torch.randperm(160, generator=torch.Generator().manual_seed(0))
    circle = error(torch.arange(256) * math.pi / 128)
    assert circle < 0.35
    assert error(short[order]) < 1.04 * circle
    with pytest.raises(
        ValueError, match=r"360 degrees, or 223\.\d degrees of a short scan, without"
    ):
        error(short * (0.95 * least / covered))


def test_too_short_scans_with_gaps_allowed_have_weights_of_short_scans() -> None:
    image = head()
    A = FanBeam(torch.arange(160).double() * math.pi / 160, 126, 48, 90, 45)
    result = fbp(A(image), A, "hann", allow_gaps=True)
    assert (result - image).norm() < 0.45 * image.norm()


def test_gradients_reach_the_angles_of_a_short_scan() -> None:
    angles = (torch.arange(9).double() * 0.5 + 0.13).requires_grad_()
    y = torch.rand(9, 5, dtype=torch.float64)
    torch.autograd.gradcheck(lambda a: fbp(y, FanBeam(a, 5, (3, 4), 7.0, 2.0)), angles)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("detector", ["parallel", "flat", "curved"])
def test_detectors_that_see_one_side_need_a_circle(sign: int, detector: str) -> None:
    image = head()

    def beam_of(angles: torch.Tensor, n_detectors: int, offset: float) -> ParallelBeam | FanBeam:
        if detector == "parallel":
            return ParallelBeam(angles, n_detectors, 48, detector_offset=offset)
        kind: Any = {"detector": detector}
        return FanBeam(angles, n_detectors, 48, 90, 0, detector_offset=offset, **kind)

    circle = torch.arange(200).double() * math.pi / 100
    half, whole = beam_of(circle, 50, 18.0 * sign), beam_of(circle, 86, 0.0)
    result, expected = fbp(half(image), half, "hann"), fbp(whole(image), whole, "hann")
    tolerance = 1e-9 if detector == "parallel" else 0.05
    assert (result - expected).norm() < tolerance * expected.norm()
    short = beam_of(circle[:140], 50, 18.0 * sign)
    with pytest.raises(ValueError, match="360 degrees without gaps if one side of the detectors"):
        fbp(short(image), short)
    outside = beam_of(circle, 50, 30.0 * sign)
    with pytest.raises(ValueError, match="rays must pass on both sides of the axis of rotation"):
        fbp(outside(image), outside)


def test_an_offset_of_the_detectors_is_taken_into_account() -> None:
    image, angles = head(), torch.arange(100).double() * math.pi / 100
    A, B = ParallelBeam(angles, 80, 48), ParallelBeam(angles, 80, 48, detector_offset=3.0)
    torch.testing.assert_close(fbp(B(image), B), fbp(A(image), A))
    moved = ParallelBeam(angles, 80, (52, 48), origin=(23.5, 23.5))
    result = fbp(A(image), moved)
    torch.testing.assert_close(result[:48], fbp(A(image), A))


def test_compositions_with_unitary_operators_and_numbers_have_the_geometry_of_the_beam() -> None:
    A = ParallelBeam(torch.arange(60).double() * math.pi / 60, 41, (24, 24))
    image = head(24)
    shift = FourierShift(("D",), [-3.37], shape=("...", "A", "D"))
    roll = Roll(("Nx",), [2], shape=("...", "Nx", "Ny"))
    expected = fbp(A(image.roll(2, 0)), A).roll(-2, 0)
    B = 2 * shift @ A @ roll
    result = fbp(B(image), B)
    torch.testing.assert_close(result.real, expected)
    with pytest.raises(TypeError, match="composed with numbers and unitary operators, got"):
        fbp(B(image), Diagonal(torch.ones(41), ("...", "D")) @ A)
    with pytest.raises(TypeError, match="composed with numbers and unitary operators, got"):
        fbp(image, shift @ shift)


@pytest.mark.parametrize("beam", ["parallel", "fan"])
def test_missing_angles_are_told(beam: str) -> None:
    angles = torch.arange(80) * math.pi / 180 * (1 if beam == "parallel" else 2)
    other = (5, 5) if beam == "fan" else ()
    A = (FanBeam if beam == "fan" else ParallelBeam)(angles, 7, (4, 4), *other)
    y = torch.ones(80, 7)
    gap = r"180 degrees .* gap of 101\.0" if beam == "parallel" else r"360 degrees, .* of 202\.0"
    with pytest.raises(ValueError, match=f"fbp: the angles must cover {gap} degrees"):
        fbp(y, A)
    assert fbp(y, A, allow_gaps=True).isfinite().all()


def test_bad_arguments_are_refused() -> None:
    A = ParallelBeam(ANGLES, 3, 4)
    with pytest.raises(TypeError, match="fbp: A must be a ParallelBeam or a FanBeam, got"):
        fbp(torch.zeros(4, 4), A.H)
    with pytest.raises(TypeError, match=r"fbp: the sinogram must be a torch\.Tensor, got"):
        fbp([[0.0]], A)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fbp: window must be one of .*, got \['ramp'\]"):
        fbp(torch.zeros(4, 4), A, ["ramp"])  # type: ignore[arg-type]
    for bad in (math.nan, math.inf):
        angles = torch.cat([ANGLES[:-1], torch.tensor([bad])])
        with pytest.raises(ValueError, match="fbp: the angles of A must be finite, got NaN or inf"):
            fbp(torch.zeros(len(angles), 3), ParallelBeam(angles, 3, 4))
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

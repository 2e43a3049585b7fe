import math
from collections.abc import Mapping
from typing import Literal

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import FanBeam, ParallelBeam
from nameddim import ND


class TestFanBeam(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        angles = torch.tensor([0.0, 0.4, 2.0], dtype=torch.float64)
        return FanBeam(angles, 4, (3, 2), 6.0, 4.0, 1.2, batch_shape=("Nz",))

    def sizes(self) -> Mapping[str, int]:
        return {"Nz": 2}


def integral(
    source: Tensor, detector: Tensor, sizes: tuple[int, int], origin: tuple[float, float]
) -> Tensor:
    """Follow a ray through the rows of pixels, and return the weight of each pixel."""
    weights = torch.zeros(sizes, dtype=torch.float64)
    step = detector - source
    main = int(step.abs().argmax()) if step[0].abs() != step[1].abs() else 1
    length = step.norm() / step[main].abs()
    for j in range(sizes[main]):
        t = (j - origin[main] - source[main]) / step[main]
        at = float(source[1 - main] + t * step[1 - main]) + origin[1 - main]
        for i in (math.floor(at), math.floor(at) + 1):
            if 0 <= i < sizes[1 - main]:
                weights[(i, j) if main == 1 else (j, i)] += (1 - abs(at - i)) * length
    return weights


def matrix(
    angles: Tensor,
    n_detectors: int,
    sizes: tuple[int, int],
    near: float,
    far: float,
    step: float,
    offset: float,
    origin: tuple[float, float],
    curved: bool,
) -> Tensor:
    rows = []
    for angle in angles:
        across = torch.stack([angle.cos(), angle.sin()])
        along = torch.stack([-angle.sin(), angle.cos()])
        for d in range(n_detectors):
            u = (d - (n_detectors - 1) / 2) * step + offset
            source, place = -near * along, u * across + far * along
            if curved:
                gamma, radius = u / (near + far), near + far
                place = source + radius * (math.sin(gamma) * across + math.cos(gamma) * along)
            rows.append(integral(source, place, sizes, origin))
    return torch.stack(rows).flatten(1)


@given(
    st.lists(st.floats(-7, 7), min_size=1, max_size=3),
    st.integers(1, 6),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.sampled_from([0.01, 0.3, 2.0, 100.0]),
    st.sampled_from([0.0, 3.0, 200.0]),
    st.sampled_from([1e-9, 0.13, 0.5, 1.0, 2.5]),
    st.sampled_from([0.0, 0.4, -1.1]),
    st.none() | st.tuples(st.floats(-3, 6), st.floats(-3, 6)),
    st.sampled_from(["flat", "curved"]),
)
def test_it_and_its_adjoint_are_the_matrix(
    angles: list[float],
    n_detectors: int,
    sizes: tuple[int, int],
    outside: float,
    far: float,
    step: float,
    offset: float,
    origin: tuple[float, float] | None,
    detector: Literal["flat", "curved"],
) -> None:
    at = origin or ((sizes[0] - 1) / 2, (sizes[1] - 1) / 2)
    near = math.hypot(*(max(o, n - 1 - o) for o, n in zip(at, sizes, strict=True))) + 1 + outside
    assume(detector == "flat" or 3 * step + abs(offset) < 1.5 * (near + far))
    theta = torch.tensor(angles, dtype=torch.float64)
    lengths = near, far, step
    A = FanBeam(
        theta,
        n_detectors,
        sizes,
        *lengths,
        detector_offset=offset,
        origin=origin,
        detector=detector,
    )
    is_curved = detector == "curved"
    expected = matrix(theta, n_detectors, sizes, *lengths, offset, at, is_curved)
    pixels = torch.eye(math.prod(sizes), dtype=torch.float64).view(-1, *sizes)
    rays = torch.eye(len(angles) * n_detectors, dtype=torch.float64)
    result = A(pixels).flatten(1).T
    back = A.H(rays.view(-1, len(angles), n_detectors)).flatten(1)
    torch.testing.assert_close(back, result, atol=1e-11, rtol=0)
    # Rays exactly between the axes may be followed along either.
    theta_of_rays = theta.unsqueeze(1) - A.beam().fan()
    is_clear = ((2 * theta_of_rays).cos().abs() > 1e-9).flatten()
    torch.testing.assert_close(result[is_clear], expected[is_clear], atol=1e-11, rtol=0)


def test_detectors_behind_the_source_are_refused() -> None:
    with pytest.raises(ValueError, match=r"less than 90 degrees away .* got 143\.2 degrees"):
        FanBeam(torch.zeros(2), 6, 4, 5, 5, 10.0, detector="curved")
    with pytest.raises(ValueError, match="detector must be 'flat' or 'curved', got 'round'"):
        FanBeam(torch.zeros(2), 6, 4, 5, 5, 10.0, detector="round")  # type: ignore[arg-type]


def test_far_away_sources_have_parallel_rays() -> None:
    angles = torch.linspace(0, 6, 7, dtype=torch.float64)
    x = torch.randn(9, 8, dtype=torch.float64)
    fan = FanBeam(angles, 11, (9, 8), 1e9, 0.0)
    torch.testing.assert_close(fan(x), ParallelBeam(angles, 11, (9, 8))(x), atol=1e-6, rtol=0)


def test_integrals_of_a_disc_are_chords() -> None:
    radius, size, near, far = 40.0, 128, 200.0, 150.0
    at = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    inside = (at.square().unsqueeze(1) + at.square()).sqrt()
    disc = (radius + 0.5 - inside).clamp(0, 1)  # an edge of one pixel
    A = FanBeam(torch.tensor([0.0, 0.3, 1.1], dtype=torch.float64), 128, size, near, far, 1.5)
    distance = near * (1.5 * at / (near + far)).atan().sin()
    chords = 2 * (radius**2 - distance.square()).clamp(min=0).sqrt()
    error = (A(disc) - chords).abs()
    assert error.mean() < 0.2 and error[:, distance.abs() < 0.9 * radius].max() < 0.5


def test_the_adjoint_is_matched_in_single_precision() -> None:
    A = FanBeam(torch.rand(7) * 2 * math.pi, 40, (32, 24), 60, 40, 1.5, batch_shape=())
    dottest(A, dtypes=[torch.float32, torch.complex64])


def test_the_adjoint_finds_all_rays_of_a_pixel_near_the_source() -> None:
    A = FanBeam(torch.rand(2, dtype=torch.float64), 300, (8, 7), 7.5, 3, 0.04, batch_shape=())
    dottest(A)


@pytest.mark.parametrize("detector", ["flat", "curved"])
def test_gradients_reach_images_angles_and_lengths(detector: Literal["flat", "curved"]) -> None:
    angles = torch.tensor([0.13, 1.21, 2.9], dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 5, dtype=torch.complex128)

    numbers = (0.9, -0.3, [1.2, 1.7])
    lengths = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]

    def both(
        angles: Tensor, x: Tensor, spacing: Tensor, offset: Tensor, origin: Tensor
    ) -> tuple[Tensor, Tensor]:
        A = FanBeam(
            angles,
            5,
            (4, 3),
            5.0,
            2.0,
            spacing,
            detector_offset=offset,
            origin=origin,
            detector=detector,
        )
        return A(x), A.H(y)

    assert torch.autograd.gradcheck(both, (angles, x, *lengths))


def test_tiles_of_angles_are_rows_of_the_whole() -> None:
    angles = torch.rand(40, dtype=torch.float64)  # more than have a table at a time
    A = FanBeam(angles, 6, (4, 5), 6.0, 2.0, batch_shape=("Nz",))
    x = torch.randn(20, 4, 5, dtype=torch.float64)
    part = A.split(A, {ND("A"): slice(3, 29), ND("Nz"): slice(1, 19)})
    torch.testing.assert_close(part(x[1:19]), A(x)[1:19, 3:29])
    y = torch.randn(18, 26, 6, dtype=torch.float64)
    whole = torch.zeros(18, 40, 6, dtype=torch.float64)
    whole[:, 3:29] = y
    torch.testing.assert_close(part.H(y), A.H(whole))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_angle_that_is_not_finite_gives_nan(bad: float) -> None:
    A = FanBeam(torch.tensor([0.0, bad]), 9, (5, 4), 5, 5)
    assert A(torch.ones(5, 4)).isnan().all(1).tolist() == [False, True]
    assert A.H(torch.ones(2, 9)).isnan().all()


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([0.0], 3, 4, 9, 9), TypeError, "angles must be a tensor of real numbers, got <class"),
        ((torch.zeros(2), 3, 4, "9", 9), TypeError, "source_distance must be a real number"),
        ((torch.zeros(2), 3, 4, 9, -1), ValueError, "detector_distance must be at least 0 and"),
        ((torch.zeros(2), 3, 4, 9, 9, 0.0), ValueError, "detector_spacing must be positive"),
        ((torch.zeros(2), 3, 4, 3.0, 9), ValueError, r"more than 3\.1.* for an image of \(4, 4\)"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[object, ...], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"FanBeam: .*{match}"):
        FanBeam(*arguments)  # type: ignore[arg-type]

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import ConeBeam, FanBeam, ParallelBeam, ParallelBeam3D
from linops_imaging._xray import _plane_by_plane, _volume_transform
from nameddim import ND

ANGLES = torch.tensor([0.2, 1.3, 2.9], dtype=torch.float64)


class TestConeBeam(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return ConeBeam(ANGLES[:2].clone(), (2, 3), (3, 2, 2), 6.0, 4.0, 1.2, batch_shape=("B",))

    def sizes(self) -> Mapping[str, int]:
        return {"B": 2}


@pytest.mark.variant
class TestParallelBeam3D(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = ParallelBeam3D(ANGLES[:2].clone(), (3, 2), (3, 2, 2), tilt=0.3, batch_shape=())
        return A.split(A, {ND("Nx"): slice(1, 3), ND("Dv"): slice(1, 3)})


def row(point: Tensor, step: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Follow a ray from plane to plane of voxels, and return the weight of each voxel."""
    weights = torch.zeros(sizes, dtype=torch.float64)
    main = int(step.abs().argmax())
    length = float(step.norm() / step[main].abs())
    for plane in range(sizes[main]):
        at = point + (plane - point[main]) / step[main] * step
        low = [math.floor(float(c)) for c in at]
        low[main] = plane
        for corner in itertools.product((0, 1), repeat=3):
            voxel = [a + b for a, b in zip(low, corner, strict=True)]
            if corner[main] or not all(0 <= i < n for i, n in zip(voxel, sizes, strict=True)):
                continue
            share = [1 - abs(float(c) - i) for c, i in zip(at, voxel, strict=True)]
            share[main] = 1.0
            weights[tuple(voxel)] += math.prod(share) * length
    return weights


numbers = st.floats(-1, 1).map(lambda x: round(x, 3))
vectors = st.tuples(numbers, numbers, numbers)


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(st.tuples(vectors, vectors, vectors, vectors), min_size=1, max_size=2),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    st.none() | st.tuples(st.floats(-2, 4), st.floats(-2, 4), st.floats(-2, 4)),
    st.booleans(),
)
def test_rays_of_any_poses_and_their_adjoint_are_the_matrix(
    poses: list[tuple[tuple[float, ...], ...]],
    n_detectors: tuple[int, int],
    sizes: tuple[int, int, int],
    origin: tuple[float, float, float] | None,
    is_cone: bool,
) -> None:
    source, middle, u, v = torch.tensor(poses, dtype=torch.float64).unbind(1)
    source = source + torch.tensor([0.0, -9.0, 0.5])
    if is_cone:
        A: ConeBeam | ParallelBeam3D = ConeBeam.from_poses(
            source, middle * 3, u, v, n_detectors, sizes, origin=origin
        )
    else:
        A = ParallelBeam3D.from_poses(source, middle * 3, u, v, n_detectors, sizes, origin=origin)
    at = torch.tensor(origin or [(n - 1) / 2 for n in sizes], dtype=torch.float64)
    rows = []
    for s, m, du, dv in zip(source, middle * 3, u, v, strict=True):
        for j, i in itertools.product(*map(range, n_detectors)):
            place = m + (i - (n_detectors[1] - 1) / 2) * du + (j - (n_detectors[0] - 1) / 2) * dv
            rows.append(row((s if is_cone else place) + at, place - s if is_cone else s, sizes))
    expected = torch.stack(rows).flatten(1)
    voxels = torch.eye(math.prod(sizes), dtype=torch.float64).view(-1, *sizes)
    rays = torch.eye(len(rows), dtype=torch.float64).view(-1, len(poses), *n_detectors)
    torch.testing.assert_close(A(voxels).flatten(1).T, expected, atol=1e-11, rtol=0)
    torch.testing.assert_close(A.H(rays).flatten(1), expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize("detector", ["flat", "curved"])
@pytest.mark.parametrize("offset", [0.0, 0.4])
def test_the_middle_row_of_a_cone_is_a_fan(
    detector: Literal["flat", "curved"], offset: float
) -> None:
    x = torch.rand(5, 4, 3, dtype=torch.float64)
    cone = ConeBeam(
        ANGLES,
        (3, 7),
        (5, 4, 3),
        20,
        10,
        (1.5, 1.3),
        detector_offset=(0, offset),
        detector=detector,
    )
    fan = FanBeam(ANGLES, 7, (5, 4), 20, 10, 1.3, detector_offset=offset, detector=detector)
    torch.testing.assert_close(cone(x)[:, 1], fan(x[..., 1]))


def test_rows_of_parallel_rays_are_slices() -> None:
    x = torch.rand(5, 4, 3, dtype=torch.float64)
    A = ParallelBeam3D(ANGLES, (3, 7), (5, 4, 3), (1, 0.9), detector_offset=(0, 0.3))
    slices = ParallelBeam(ANGLES, 7, (5, 4), 0.9, detector_offset=0.3)
    torch.testing.assert_close(A(x), slices(x.movedim(2, 0)).movedim(0, 1))


def test_a_tilt_of_90_degrees_sums_over_slices() -> None:
    x = torch.rand(5, 4, 3, dtype=torch.float64)
    A = ParallelBeam3D(torch.zeros(1), (4, 5), (5, 4, 3), tilt=math.pi / 2)
    torch.testing.assert_close(A(x)[0].flip(0).T, x.sum(2))


def test_a_helix_is_circles_at_heights() -> None:
    x = torch.rand(4, 4, 5, dtype=torch.float64)
    heights = torch.tensor([-1.0, 0.25, 1.0], dtype=torch.float64)
    A = ConeBeam(ANGLES, (3, 4), (4, 4, 5), 9, 3, heights=heights)
    for view, height in enumerate(heights.tolist()):
        one = ConeBeam(
            ANGLES[view : view + 1], (3, 4), (4, 4, 5), 9, 3, origin=(1.5, 1.5, 2 + height)
        )
        torch.testing.assert_close(A(x)[view], one(x)[0])


def test_integrals_of_a_ball_are_chords() -> None:
    radius, size, near, far = 20.0, 64, 120.0, 60.0
    at = torch.arange(size) - (size - 1) / 2
    inside = (at[:, None, None].square() + at[:, None].square() + at.square()).sqrt()
    ball = (radius + 0.5 - inside).clamp(0, 1)  # an edge of one voxel
    A = ConeBeam(torch.tensor([0.3, 1.1]), (32, 32), size, near, far, 2.0)
    place = (torch.arange(32) - 15.5) * 2
    away = (place.square()[:, None] + place.square()).sqrt()
    distance = near * (away / (near + far)).atan().sin()
    chords = 2 * (radius**2 - distance.square()).clamp(min=0).sqrt()
    error = (A(ball) - chords).abs()
    assert error.mean() < 0.3 and error[:, distance < 0.9 * radius].max() < 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.int64])
def test_the_geometry_does_not_decide_the_dtype(dtype: torch.dtype) -> None:
    A = ConeBeam(ANGLES, (3, 4), (4, 4, 5), 9, 3)
    x = (9 * torch.rand(4, 4, 5)).to(dtype)
    y, expected = A(x), torch.float32 if dtype is torch.int64 else dtype
    assert y.dtype == A.H(y).dtype == expected
    exact = A(x.to(torch.complex128))
    accuracy = 10 * torch.finfo(expected).eps
    torch.testing.assert_close(y.to(exact.dtype), exact, rtol=accuracy, atol=1e-4)
    if dtype in (torch.float32, torch.complex64):
        dottest(ConeBeam(ANGLES, (3, 4), (4, 4, 5), 9, 3, batch_shape=()), dtypes=[dtype])


def test_tiles_are_blocks_of_the_whole_and_add_up() -> None:
    A = ConeBeam(ANGLES, (4, 3), (4, 3, 5), 9, 3, 1.4, heights=torch.tensor([0.1, 0.2, -0.5]))
    x, y = torch.rand(2, 4, 3, 5).double(), torch.rand(2, 3, 4, 3).double()
    total = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
    window = {ND("A"): slice(1, 3), ND("Dv"): slice(2, 4), ND("Du"): slice(0, 2)}
    for cut in (slice(0, 2), slice(2, 3), slice(3, 5)):
        tile = A.split(A, {**window, ND("Nz"): cut})
        total += tile(x[..., cut])
        part = torch.zeros_like(y)
        part[:, 1:3, 2:4, 0:2] = y[:, 1:3, 2:4, 0:2]
        torch.testing.assert_close(tile.H(y[:, 1:3, 2:4, 0:2]), A.H(part)[..., cut])
        again = tile.split(tile, {ND("Nx"): slice(1, 3)})
        assert again(x[:, 1:3, :, cut]).shape == (2, 2, 2, 2)
    torch.testing.assert_close(total, A(x)[:, 1:3, 2:4, 0:2])


def test_a_few_places_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    A = ConeBeam(ANGLES, (4, 3), (4, 3, 5), 9, 3, 1.4)
    x, y = torch.rand(2, 4, 3, 5).double(), torch.rand(2, 3, 4, 3).double()
    expected = A(x), A.H(y)
    monkeypatch.setattr(_plane_by_plane, "_AT_ONCE", 1)
    monkeypatch.setattr(_volume_transform, "_RAYS", 24)
    torch.testing.assert_close((A(x), A.H(y)), expected)


LENGTHS: Mapping[str, object] = {
    "detector_spacing": [1.1, 0.9],
    "detector_offset": [0.2, -0.3],
    "origin": [1.2, 0.9, 1.1],
}


def cone(detector: Literal["flat", "curved"]) -> Callable[..., NamedLinop]:
    def make(angles: Tensor, heights: Tensor, **lengths: Any) -> NamedLinop:
        return ConeBeam(
            angles, (2, 3), (3, 2, 3), 5, 2, heights=heights, detector=detector, **lengths
        )

    return make


def parallel(angles: Tensor, tilt: Tensor, **lengths: Any) -> NamedLinop:
    return ParallelBeam3D(angles, (2, 3), (3, 2, 3), tilt=tilt[0], **lengths)


@pytest.mark.parametrize("make", [cone("flat"), cone("curved"), parallel])
def test_gradients_reach_the_geometry(make: Callable[..., NamedLinop]) -> None:
    x = torch.rand(3, 2, 3, dtype=torch.float64, requires_grad=True)
    y = torch.rand(2, 2, 3, dtype=torch.float64, requires_grad=True)
    tensors = [ANGLES[:2], torch.tensor([0.13, -0.2]), *map(torch.tensor, LENGTHS.values())]
    weights = [tensor.double().requires_grad_() for tensor in tensors]

    def both(x: Tensor, y: Tensor, first: Tensor, second: Tensor, *others: Tensor) -> object:
        A = make(first, second, **dict(zip(LENGTHS, others, strict=True)))
        return A(x), A.H(y)

    assert torch.autograd.gradcheck(both, (x, y, *weights))  # type: ignore[arg-type]


def test_gradients_to_the_volume_are_the_adjoint() -> None:
    A = ConeBeam(ANGLES[:2], (2, 3), (3, 2, 3), 5, 2)
    x = torch.rand(3, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(A, x) and torch.autograd.gradgradcheck(A, x)
    assert torch.autograd.gradcheck(A.H, A(x).detach().requires_grad_())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_angle_that_is_not_finite_gives_nan(bad: float) -> None:
    A = ConeBeam(torch.tensor([0.0, bad]), (2, 3), (3, 2, 3), 5, 2)
    assert A(torch.ones(3, 2, 3)).isnan().flatten(1).all(1).tolist() == [False, True]
    assert A.H(torch.ones(2, 2, 3)).isnan().any()


@pytest.mark.usefixtures("one_thread")
def test_some_views_are_in_memory_at_a_time(
    allocated: Callable[[Callable[[], object]], int],
) -> None:
    A = ConeBeam(torch.arange(60) * 0.1, (64, 64), 32, 100, 50, batch_shape=())
    x, y = torch.rand(32, 32, 32), torch.rand(60, 64, 64)
    results: list[Tensor] = []
    for linop, values in ((A, x), (A.H, y)):
        peak = allocated(lambda: results.append(linop(values)))  # noqa: B023 (called at once)
        assert peak - results[-1].nbytes < 10 * 2**20


def test_there_may_be_no_volumes_and_no_views() -> None:
    A = ConeBeam(torch.zeros(0), (2, 3), (3, 2, 3), 5, 2)
    assert A(torch.ones(3, 2, 3)).shape == (0, 2, 3)
    assert torch.equal(A.H(torch.ones(0, 2, 3)), torch.zeros(3, 2, 3))
    B = ConeBeam(ANGLES, (2, 3), (3, 2, 3), 5, 2)
    assert B.N(torch.ones(0, 3, 2, 3)).shape == (0, 3, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((ANGLES, (3,), 4, 9, 9), {}, ValueError, "n_detectors must be 2 positive integers"),
        ((ANGLES, (3, 3), (4, 4), 9, 9), {}, ValueError, "grid_size must be 3 positive integers"),
        (
            (ANGLES, (3, 3), 4, 3, 9),
            {},
            ValueError,
            r"more than 3\.1.* for a volume of \(4, 4, 4\)",
        ),
        ((ANGLES, (3, 3), 4, 0, 9), {}, ValueError, "source_distance must be positive"),
        (
            (ANGLES, (3, 3), 4, 9, 9, (1, 2, 3)),
            {},
            ValueError,
            "detector_spacing must be 2 numbers",
        ),
        ((ANGLES, (3, 3), 4, 9, 9), {"heights": [0.0]}, TypeError, "heights must be a tensor of"),
        ((ANGLES, (3, 3), 4, 9, 9), {"heights": ANGLES[1:]}, ValueError, r"\(3,\) of angles, got"),
        (
            (ANGLES, (3, 3), 4, 9, 9),
            {"detector": "round"},
            ValueError,
            "must be 'flat' or 'curved'",
        ),
        (([0.0], (3, 3), 4, 9, 9), {}, TypeError, "angles must be a tensor of real numbers"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"ConeBeam: .*({match})"):
        ConeBeam(*arguments, **options)


def test_one_length_may_be_of_numpy() -> None:
    A, B = (ConeBeam(ANGLES, (3, 3), 4, 9, 9, one) for one in (np.array(1.5), 1.5))  # type: ignore[arg-type]
    assert A.detector_spacing == B.detector_spacing == (1.5, 1.5)


def test_bad_poses_are_refused() -> None:
    pose = torch.zeros(2, 3)
    with pytest.raises(TypeError, match="ConeBeam: u must be a tensor of real numbers, got <class"):
        ConeBeam.from_poses(pose, pose, [0.0], pose, (3, 3), 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"v must have the shape \(views, 3\), got \(3,\)"):
        ConeBeam.from_poses(pose, pose, pose, pose[0].new_zeros(3), (3, 3), 4)
    with pytest.raises(
        ValueError, match=r"each source must be outside .* one inside of it in view 0"
    ):
        ConeBeam.from_poses(pose, pose, pose, pose, (3, 3), 4)
    with pytest.raises(ValueError, match="ParallelBeam3D: poses must have equally many views, got"):
        ParallelBeam3D.from_poses(pose, pose, pose[:1], pose, (3, 3), 4)

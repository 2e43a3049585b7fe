import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Chain, FourierShift, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import NUFFT
from linops_imaging._mri._fit_motion import Motion
from linops_imaging._non_uniform._toeplitz_normal import ToeplitzNormal
from linops_imaging.mri import fit_motion, rigid_motion

VOXELS = (1.0, 1.3, 0.8)


def uniform(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(lengths, dtype=torch.float64, generator=generator) - 0.5


def random(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def transform(sizes: tuple[int, ...], n_shots: int = 3, n_points: int = 30) -> NUFFT:
    locs = 0.7 * uniform(n_shots, n_points, len(sizes)) * torch.tensor(sizes)
    return NUFFT(locs, sizes, ("Shot", "K"), tol=1e-10)


def blob(sizes: tuple[int, ...], shift: Tensor, rotation: Tensor) -> Tensor:
    """Return an oblique Gaussian that is turned by R, then shifted."""
    n = len(sizes)
    axes = [torch.arange(length, dtype=torch.float64) - length // 2 for length in sizes]
    at = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1) - shift
    voxels = torch.tensor(VOXELS[:n], dtype=torch.float64)
    at = (at * voxels) @ rotation - torch.tensor([0.8, -0.6, 0.4])[:n]
    widths = torch.tensor([1.5, 1.9, 1.3], dtype=torch.float64)[:n]
    return torch.exp(-0.5 * (at / widths).square().sum(-1)).to(torch.complex128)


def turned(angle: float, axis: int | None = None) -> Tensor:
    """Return the matrix of a rotation of the plane, or about an axis."""
    c, s = math.cos(angle), math.sin(angle)
    plane = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    if axis is None:
        return plane
    result = torch.eye(3, dtype=torch.float64)
    others = torch.tensor([(axis + 1) % 3, (axis + 2) % 3])
    result[others[:, None], others] = plane
    return result


@pytest.mark.variant
class TestRigidMotion(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = uniform(2, 3, 2) * 3
        F = NUFFT(locs, (4, 3), ("Shot", "K"), batch_shape=("C",), method="interpolate")
        return rigid_motion(F, 2 * uniform(2, 2, seed=1), uniform(2, seed=2))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_it_is_the_transform_of_the_moved_object(axis: int | None) -> None:
    sizes = (20, 18) if axis is None else (16, 15, 17)
    n, angles = len(sizes), torch.tensor([0.0, 0.4, -0.7], dtype=torch.float64)
    shifts = 2 * uniform(3, n, seed=1)
    rotations = angles if axis is None else angles[:, None] * torch.eye(3).double()[axis]
    F = transform(sizes)
    A = rigid_motion(F, shifts, rotations, voxel_size=VOXELS[:n])
    still = blob(sizes, torch.zeros(n), torch.eye(n).double())
    objects = [blob(sizes, d, turned(float(t), axis)) for d, t in zip(shifts, angles, strict=True)]
    expected = torch.stack([F(each)[shot] for shot, each in enumerate(objects)])
    assert (A(still) - expected).norm() < 2e-3 * expected.norm()
    assert (F(still) - expected).norm() > 0.2 * expected.norm()


def test_a_shift_is_that_of_the_fourier_transform() -> None:
    at = torch.arange(5, dtype=torch.float64) - 2
    locs = torch.stack(torch.meshgrid(at, at, indexing="ij"), -1)[None]
    F, shift = NUFFT(locs, (5, 5), ("Shot", "Kx1", "Ky1"), tol=1e-10), torch.tensor([1.3, -0.4])
    moved = FourierShift(("Nx", "Ny"), shift.double())(random(5, 5))
    A = rigid_motion(F, shift.double()[None])
    torch.testing.assert_close(A(random(5, 5)), F(moved), atol=1e-8, rtol=0)


def test_gradients_reach_the_poses() -> None:
    for sizes in ((4, 3), (3, 4, 2)):
        n, x = len(sizes), random(*sizes)
        F = transform(sizes, 2, 4)

        def value(shifts: Tensor, rotations: Tensor, F: NUFFT = F, x: Tensor = x) -> Tensor:
            A = rigid_motion(F, shifts, rotations, voxel_size=VOXELS[: len(F.grid_size)])
            return A.H(A(x)).abs().square().sum() + A(x).real.sum()

        poses = [uniform(2, n, seed=1), uniform(2, *[3] * (n == 3), seed=2)]
        poses = [pose.requires_grad_() for pose in poses]
        assert torch.autograd.gradcheck(value, poses, eps=1e-5, atol=1e-4, rtol=1e-4)


def test_the_normal_operator_convolves() -> None:
    F = NUFFT(uniform(3, 9, 2) * 4, (4, 4), ("Shot", "K"), tol=1e-11, toeplitz=True)
    A, x = rigid_motion(F, uniform(3, 2), uniform(3, seed=2)), random(2, 4, 4)
    assert isinstance(A, Chain) and isinstance(A.N, ToeplitzNormal)
    torch.testing.assert_close(A.N(x), A.H(A(x)), atol=1e-9, rtol=0)


@pytest.mark.parametrize("sizes", [(12, 10), (8, 7, 6)])
def test_poses_are_found(sizes: tuple[int, ...]) -> None:
    n = len(sizes)
    locs = 0.7 * uniform(2, 60, 3, n) * torch.tensor(sizes)
    names = ("A", "K", "B")
    F = NUFFT(locs, sizes, names, batch_shape=("C",), tol=1e-9)
    shifts = 0.8 * uniform(3, 2, n, seed=1)
    rotations = 0.3 * uniform(3, 2, *[3] * (n == 3), seed=2)
    images = torch.stack([blob(sizes, c, torch.eye(n).double()) for c in uniform(2, n, seed=3)])
    options: dict[str, Any] = {"dims": ("B", "A"), "voxel_size": VOXELS[:n]}
    y = rigid_motion(F, shifts, rotations, **options)(images)
    result = fit_motion(F, images, y, **options)
    torch.testing.assert_close(result, Motion(shifts, rotations), atol=1e-6, rtol=0)
    begun = fit_motion(F, images, y, **options, **result._asdict(), max_num_iters=0)
    torch.testing.assert_close(begun, result)


def test_no_step_makes_it_worse() -> None:
    F = transform((6, 6))
    x, y = random(6, 6), random(3, 30, seed=1)  # which no pose explains
    costs = []
    for n in range(4):
        A = rigid_motion(F, *fit_motion(F, x, y, max_num_iters=n))
        costs.append((A(x) - y).abs().square().sum(-1))
    assert all((after <= before).all() for before, after in pairwise(costs))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"transform": 3}, TypeError, "transform must be a NUFFT"),
        ({"shifts": torch.zeros(3, 3)}, ValueError, r"shifts must have the shape \(3, 2\)"),
        ({"shifts": torch.zeros(3, 2).long()}, TypeError, "shifts must be a tensor of real"),
        ({"rotations": torch.zeros(3, 3)}, ValueError, r"rotations must have the shape \(3,\)"),
        ({"shifts": torch.zeros(3, 2) + torch.nan}, ValueError, "shifts must be finite, got NaN"),
        ({"dims": ("C",)}, ValueError, "dims must be different dimensions of the locations"),
        ({"dims": ()}, ValueError, "dims must be different dimensions of the locations"),
        ({"voxel_size": (1.0,)}, ValueError, "voxel_size must be 2 numbers"),
        ({"voxel_size": (1.0, 0.0)}, ValueError, "voxel_size must be positive"),
    ],
)
def test_what_is_wrong_is_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"transform": transform((6, 6)), "shifts": torch.zeros(3, 2), **arguments}
    with pytest.raises(error, match=f"rigid_motion: {message}"):
        rigid_motion(**given)
    with pytest.raises(error, match=f"fit_motion: {message}"):
        fit_motion(images=torch.zeros(6, 6), kspace=torch.zeros(3, 30), **given)


def test_one_dimension_and_other_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="transform must have 2 or 3 dimensions, got 1"):
        rigid_motion(transform((6,)), torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"kspace must have the shape \(3, 30\)"):
        fit_motion(transform((6, 6)), torch.zeros(6, 6), random(3, 29))


@pytest.mark.parametrize(
    ("images", "kspace", "error", "message"),
    [
        (random(6, 6), random(3, 30) * torch.nan, ValueError, "kspace must be finite, got NaN"),
        (random(6, 6) * torch.inf, random(3, 30), ValueError, "images must be finite, got NaN"),
        (random(6, 6), random(3, 30).real, TypeError, "kspace must be a tensor of complex"),
        (random(6, 6), [1.0], TypeError, "kspace must be a tensor of complex"),
    ],
)
def test_data_that_no_pose_explains_are_refused(
    images: Tensor, kspace: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"fit_motion: {message}"):
        fit_motion(transform((6, 6)), images, kspace)

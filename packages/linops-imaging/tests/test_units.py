import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from linops_imaging import NUFFT, FanBeam, ParallelBeam, density_compensation
from linops_imaging.trajectories import golden_angles, radial_2d, radial_3d, spiral_2d

GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
GOLDEN = 180 / GOLDEN_RATIO


def trajectories(n: int) -> list[tuple[Tensor, Sequence[int]]]:
    ramp = (torch.arange(-n // 2, n // 2) + 0.0).view(-1, 1)
    grid = torch.cartesian_prod(*[torch.linspace(-n / 2, n / 2, 2 * n)] * 2)
    return [
        (ramp.repeat(9, 1), (n,)),
        (radial_2d(21, 2 * n, n), (n, n)),
        (spiral_2d(8, 300, n), (n, n)),
        (grid, (n, n)),
        (radial_3d(2500, n, n), (n, n, n)),
    ]


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize(
    ("factor", "remedy"), [(2 * math.pi, r"radians .* by N / \(2 pi\)"), (1.0, "cycles .* by N$")]
)
def test_locations_in_other_units_are_named(case: int, factor: float, remedy: str) -> None:
    locs, sizes = trajectories(32)[case]
    names = ["S", "R"][-locs.ndim + 1 :]
    with pytest.warns(
        UserWarning, match=f"NUFFT: .* got {locs[..., 0].numel()} .*{remedy}"
    ) as caught:
        NUFFT(locs * factor / 32, sizes, names)
    assert caught[0].filename == __file__
    if locs.ndim == 2:
        with pytest.warns(UserWarning, match=f"density_compensation: .*{remedy}"):
            density_compensation(locs * factor / 32, sizes, 0)


@pytest.mark.parametrize("case", range(5))
def test_right_locations_and_parts_of_them_are_not(case: int) -> None:
    locs, sizes = trajectories(32)[case]
    flat, half = locs.flatten(0, -2), 16
    inner = [flat[(flat.abs() <= far).all(-1)] for far in (0.3, 1, 2, 3, 4, 6, 12)]
    grid = torch.cartesian_prod(*[torch.arange(-3.0, 4)] * len(sizes)).view(-1, len(sizes))
    for some in (flat, *inner, flat[:1], flat[:5], 0 * flat, 0 * flat[:5] + 0.5, 0.75 * flat, grid):
        NUFFT(some, sizes, ("K",))
    NUFFT(flat / half, [4] * len(sizes), ("K",))  # an image of 4 pixels has no more


@pytest.mark.parametrize(
    "degrees",
    [
        torch.arange(0, 180, 3.0),
        torch.linspace(0, 180, 50),
        torch.linspace(0, 360, 97)[:-1],
        torch.arange(0, 180, 0.7).double() * 180 / (258 * 0.7),
        torch.tensor([0.0, 30.0, 45.0, 90.0]),
        torch.arange(40) * GOLDEN,
        (torch.arange(40) * GOLDEN).remainder(180),
        (torch.arange(40) * GOLDEN).remainder(360),
        golden_angles(20, 7).rad2deg(),
    ],
)
def test_degrees_are_named(degrees: Tensor) -> None:
    message = "angles must be in radians, got angles from .* convert those by torch.deg2rad"
    for call in (
        lambda: ParallelBeam(degrees, 9, (8, 8)),
        lambda: FanBeam(degrees, 9, (8, 8), 20.0, 20.0),
        lambda: radial_2d(len(degrees), 4, 8, degrees),
    ):
        with pytest.warns(UserWarning, match=message) as caught:
            call()
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "angles",
    [
        torch.arange(0, 180, 3.0).deg2rad(),
        torch.linspace(0, 2 * math.pi, 60),
        *[torch.arange(n) * math.radians(GOLDEN) for n in (93, 94, 185, 186, 400)],
        *[torch.arange(n) * math.pi / (GOLDEN_RATIO + 1) for n in (149, 150, 151, 300, 301)],
        *[golden_angles(200, index) for index in (1, 2, 7)],
        torch.arange(8.0),
        torch.linspace(0, 40 * math.pi, 500),
        torch.tensor([0.0]),
        torch.tensor([math.nan, 3.0]),
        torch.zeros(0),
        torch.zeros(5),
    ],
)
def test_radians_are_not(angles: Tensor) -> None:
    ParallelBeam(angles, 9, (8, 8))

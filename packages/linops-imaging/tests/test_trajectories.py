import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_imaging import trajectories
from linops_imaging.trajectories import golden_angles, radial_2d, radial_3d, spiral_2d


def test_golden_angles_divide_the_half_circle_evenly() -> None:
    for index, degrees in ((1, 111.2461), (2, 68.7539), (7, 23.6281)):
        step = golden_angles(2, index, torch.float64)[1].rad2deg()
        assert abs(step - degrees) < 1e-4
    for n_angles in (5, 34, 100):
        turned = golden_angles(n_angles, dtype=torch.float64).remainder(math.pi).sort().values
        gaps = turned.diff(append=turned[:1] + math.pi)
        assert gaps.max() / gaps.min() < 2.7  # of at most three lengths: Fibonacci's


@given(st.integers(1, 9), st.integers(1, 8), st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_spokes_go_through_the_centre(n_spokes: int, half: int, sizes: tuple[int, int]) -> None:
    angles = torch.linspace(0, 6, n_spokes, dtype=torch.float64)
    locs = radial_2d(n_spokes, 2 * half, sizes, angles, torch.float64)
    assert locs.shape == (n_spokes, 2 * half, 2)
    assert torch.equal(locs[:, half], torch.zeros(n_spokes, 2, dtype=torch.float64))
    scaled = locs / torch.tensor(sizes)
    torch.testing.assert_close(scaled[:, 0].norm(dim=-1), torch.full((n_spokes,), 0.5).double())
    direction = torch.stack([angles.cos(), angles.sin()], -1)
    along = torch.arange(-half, half) / (2 * half)
    torch.testing.assert_close(scaled, along.view(-1, 1) * direction.unsqueeze(1))


def test_spokes_in_space_cover_the_half_sphere_evenly() -> None:
    directions = -2 * radial_3d(1000, 2, 1, torch.float64)[:, 0]
    torch.testing.assert_close(directions.norm(dim=-1), torch.ones(1000, dtype=torch.float64))
    # The mean of v v^T over a sphere is a third of the identity.
    moments = directions.T @ directions / 1000
    torch.testing.assert_close(moments, torch.eye(3).double() / 3, atol=0.01, rtol=0)
    nearest = (directions @ directions.T).abs().fill_diagonal_(0).amax(0).clamp(max=1).acos()
    assert nearest.min() > 0.3 * nearest.mean()


def test_turns_of_a_spiral_are_one_apart_by_default() -> None:
    locs = spiral_2d(4, 1001, 64, dtype=torch.float64)
    assert locs.shape == (4, 1001, 2)
    assert torch.equal(locs[:, 0], torch.zeros(4, 2, dtype=torch.float64))
    radius = locs.norm(dim=-1)
    assert abs(radius[0, -1] - 32) < 1e-9
    n_turns = 64 / 2 / 4
    torch.testing.assert_close(radius[0].diff() * 1000 / n_turns, torch.full((1000,), 4.0).double())
    dense = spiral_2d(1, 11, (8, 16), 3, 2.0, torch.float64)
    assert dense[0, 5].norm() < spiral_2d(1, 11, (8, 16), 3, 1.0, torch.float64)[0, 5].norm()
    torch.testing.assert_close(dense[0, -1], torch.tensor([4.0, 0.0]).double())


def test_all_locations_are_on_the_grid_of_the_default_dtype() -> None:
    for locs in (radial_2d(50, 20, (9, 12)), spiral_2d(3, 40, (9, 12))):
        assert locs.dtype == torch.float32
        assert (locs.abs() <= torch.tensor([4.5, 6.0])).all()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: golden_angles(-1), ValueError, "golden_angles: n_angles must be at least 0"),
        (lambda: golden_angles(1, 0), ValueError, "golden_angles: index must be at least 1"),
        (lambda: golden_angles(3, dtype=torch.int32), TypeError, "dtype of real numbers, got"),
        (lambda: radial_2d(2, 2, 4, dtype=torch.int64), TypeError, "radial_2d: dtype must be a"),
        (lambda: radial_3d(2, 2, 4, dtype=torch.bool), TypeError, "radial_3d: dtype must be a"),
        (lambda: spiral_2d(2, 2, 4, dtype=torch.complex64), TypeError, "spiral_2d: dtype must be"),
        (lambda: radial_2d(1.0, 2, 4), TypeError, "radial_2d: n_spokes must be an integer"),  # type: ignore[arg-type]
        (
            lambda: radial_2d(2, 2, 4, torch.zeros(3)),
            ValueError,
            r"shape \(2,\) of n_spokes, got \(3,",
        ),
        (lambda: radial_2d(2, 2, 4, [0, 1]), TypeError, "angles must be a tensor of real numbers"),  # type: ignore[arg-type]
        (lambda: radial_2d(2, 2, 4, torch.tensor([0, 1])), TypeError, "of real numbers, got torch"),
        (lambda: radial_2d(1, 2, 4, torch.tensor([True])), TypeError, "of real numbers, got torch"),
        (lambda: radial_2d(1, 2, 4, torch.tensor([math.nan])), ValueError, "angles must be finite"),
        (lambda: radial_2d(2, 2, (4, 4, 4)), ValueError, "must be 2 positive integers"),
        (lambda: radial_3d(2, 0, 4), ValueError, "radial_3d: n_readout must be at least 1"),
        (lambda: spiral_2d(1, 1, 4), ValueError, "spiral_2d: n_readout must be at least 2"),
        (lambda: spiral_2d(1, 2, 4, -1.0), ValueError, "n_turns must be positive and finite"),
        (lambda: spiral_2d(1, 2, 4, 1, math.inf), ValueError, "density must be positive"),
        (lambda: spiral_2d(1, 2, 4, "1"), TypeError, "n_turns must be a real number, got '1'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "make",
    [
        lambda: trajectories.radial_2d(2000, 64, 64),
        lambda: trajectories.radial_3d(2000, 64, 64),
        lambda: trajectories.spiral_2d(1000, 128, 64),
    ],
)
def test_points_are_made_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
    allocated: Callable[[Callable[[], object]], int],
    make: Callable[[], torch.Tensor],
) -> None:
    expected = make()  # at once
    monkeypatch.setattr(trajectories, "AT_ONCE", 2**12)
    results: list[torch.Tensor] = []
    assert allocated(lambda: results.append(make())) < 1.5 * expected.nbytes
    assert torch.equal(results[0], expected)


@pytest.mark.parametrize(
    ("unit", "factors", "options"),
    [
        ("cycles/fov", (1, 1), {}),
        ("sigpy", (1, 1), {}),
        ("bart", (1, 1), {}),
        ("cycles/pixel", (8, 5), {}),
        ("nyquist", (4, 2.5), {}),
        ("torchkbnufft", (8 / (2 * math.pi), 5 / (2 * math.pi)), {}),
        ("cycles/length", (220, 110), {"fov": (220, 110)}),
        ("radians/length", (110 / math.pi, 110 / math.pi), {"fov": 220.0}),
        ("radians/length", (110 / math.pi, 110 / math.pi), {"fov": np.float32(220)}),
        ("radians/length", (110 / math.pi, 110 / math.pi), {"fov": torch.tensor(220.0)}),
        ("mrpro", (0.5, 0.25), {"encoded_size": (16, 20)}),
    ],
)
def test_units_of_locations(unit: str, factors: tuple[float, float], options: Any) -> None:
    locs = torch.tensor([[0.25, -0.5], [0.125, 0.1]], requires_grad=True)
    result = trajectories.convert(locs, unit, (8, 5), **options)
    torch.testing.assert_close(result, locs * torch.tensor(factors, dtype=torch.float32))
    (gradient,) = torch.autograd.grad(result.sum(), locs)
    torch.testing.assert_close(gradient[0], torch.tensor(factors, dtype=torch.float32))


@pytest.mark.parametrize(("largest", "unit"), [(0.5, "cycles/pixel"), (0.6, "radians/pixel")])
def test_mri_nufft_chooses_the_unit_by_the_largest(largest: float, unit: str) -> None:
    locs = torch.tensor([[0.1], [-largest]])
    result = trajectories.convert(locs, "mri-nufft", 8)
    assert torch.equal(result, trajectories.convert(locs, unit, 8))


def test_units_that_do_not_fit() -> None:
    locs = torch.zeros(3, 2)
    convert: Any = trajectories.convert
    with pytest.raises(TypeError, match="convert: locs must be a tensor of real numbers, got"):
        convert(locs.int(), "cycles/fov", 8)
    with pytest.raises(ValueError, match=r"convert: unit must be one of .*, got \['finufft'\]"):
        convert(torch.zeros(1, 2), ["finufft"], 8)
    with pytest.raises(ValueError, match=r"convert: unit must be one of .*, got 'degrees'"):
        convert(locs, "degrees", 8)
    with pytest.raises(ValueError, match="convert: grid_size must be 2 positive integers, got"):
        convert(locs, "cycles/fov", (8, 8, 8))
    for unit, options in (("cycles/length", {}), ("cycles/fov", {"fov": 2.0})):
        with pytest.raises(ValueError, match="convert: fov must be given for a unit with a length"):
            convert(locs, unit, 8, **options)
    for unit, sizes in (("mrpro", {}), ("cycles/fov", {"encoded_size": 9})):
        with pytest.raises(ValueError, match="convert: encoded_size must be given for cycles/enc"):
            convert(locs, unit, 8, **sizes)
    with pytest.raises(TypeError, match="convert: fov must be a real number, got 5j"):
        convert(locs, "cycles/length", 8, fov=5j)
    with pytest.raises(ValueError, match="convert: fov must be 2 numbers, got"):
        convert(locs, "cycles/length", 8, fov=[1.0])

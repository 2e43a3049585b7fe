import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_imaging import masks
from linops_imaging.masks import calibration_region, poisson_disc, variable_density

sizes = st.lists(st.integers(1, 8), min_size=1, max_size=3)


@given(sizes, st.data())
def test_the_calibration_region_is_about_the_centre(grid: list[int], data: st.DataObject) -> None:
    region = [data.draw(st.integers(0, size)) for size in grid]
    mask = calibration_region(grid, region)
    assert mask.dtype == torch.bool and mask.shape == tuple(grid)
    assert mask.sum() == math.prod(region)
    for axis, (size, own) in enumerate(zip(grid, region, strict=True)):
        if mask.any():
            others = [other for other in range(len(grid)) if other != axis]
            along = mask.amax(others) if others else mask
            at = along.nonzero().flatten()
            assert at[0] == size // 2 - own // 2 and len(at) == own


@given(sizes, st.floats(1, 5), st.floats(0, 4), st.integers(0, 99))
def test_variable_density_has_the_number_of_samples(
    grid: list[int], acceleration: float, power: float, seed: int
) -> None:
    mask = variable_density(grid, acceleration, power, seed=seed)
    assert mask.sum() == round(math.prod(grid) / acceleration)
    assert torch.equal(mask, variable_density(grid, acceleration, power, seed=seed))


def test_variable_density_is_proportional_to_the_density() -> None:
    n, power = 32, 2.0
    counts = torch.zeros(n, n)
    for seed in range(400):
        counts += variable_density([n, n], 64, power, seed=seed)
    at = (torch.arange(n) - n // 2) / (n / 2)
    r = (at.square().unsqueeze(1) + at.square()).sqrt()
    expected = (1 - r / r.max()) ** power
    expected *= counts.sum() / expected.sum()
    inner, outer = r < 0.4, r > 0.8
    for ring in (inner, outer):
        assert abs(counts[ring].sum() / expected[ring].sum() - 1) < 0.1
    assert (
        variable_density([n, n], 4, calibration=8).logical_or(~calibration_region([n, n], 8)).all()
    )


@pytest.mark.parametrize("grid", [[48, 48], [40, 24], [16, 12, 20]])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_samples_keep_their_distance(grid: list[int], power: float) -> None:
    mask = poisson_disc(grid, 6, power, seed=3)
    assert mask.sum() == round(mask.numel() / 6)
    assert torch.equal(mask, poisson_disc(grid, 6, power, seed=3))
    axes = [(torch.arange(n) - n // 2) / (n / 2) for n in grid]
    r = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).norm(dim=-1)
    growth = (1 + 4 * r / r.max()) ** power
    samples, radius = mask.nonzero().double(), growth[mask].double()
    apart = torch.cdist(samples, samples, compute_mode="donot_use_mm_for_euclid_dist")
    apart.fill_diagonal_(math.inf)
    scale = (apart / torch.minimum(radius, radius.unsqueeze(1))).min()
    # Points drawn without a distance have neighbours at 1; a lattice would have sqrt(6) or 6^(1/3).
    assert (
        scale
        >= {(2, 0.0): 2, (3, 0.0): math.sqrt(2), (2, 1.0): 0.6, (3, 1.0): 0.45}[len(grid), power]
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_random(seed: int) -> None:
    one, other = poisson_disc([24, 24], 5, seed=seed), poisson_disc([24, 24], 5, seed=seed + 1)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("acceleration", [1, 1.5, 64, 576])
def test_every_number_of_samples_is_possible(acceleration: float) -> None:
    mask = poisson_disc([24, 24], acceleration)
    assert mask.sum() == round(24 * 24 / acceleration)


def test_the_centre_is_sampled_fully_and_more_densely() -> None:
    mask = poisson_disc([64, 64], 8, calibration=10)
    assert (mask | ~calibration_region([64, 64], 10)).all()
    ring = calibration_region([64, 64], 32) & ~calibration_region([64, 64], 12)
    outside = ~calibration_region([64, 64], 48)
    assert mask[ring].float().mean() > 2 * mask[outside].float().mean()


def test_sizes_may_be_of_any_integral_type() -> None:
    size: Any = np.int64(4)
    assert torch.equal(calibration_region([size, size], size), torch.ones(4, 4).bool())


@pytest.mark.parametrize("power", [500.0, 1e5])
def test_masks_of_large_powers_have_all_samples(power: float) -> None:
    for make in (poisson_disc, variable_density):
        assert make([8, 8], 2, power).sum() == 32


def test_one_number_may_be_of_torch_or_numpy() -> None:
    for number in (torch.tensor(2), np.array(2), np.int64(2)):
        assert torch.equal(calibration_region([4, 6], number), calibration_region([4, 6], 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: calibration_region([4], [1, 1]), ValueError, "must have 1 sizes, got"),
        (lambda: calibration_region([4], 5), ValueError, r"must fit the grid \(4,\), got \(5,\)"),
        (lambda: variable_density([8], 2, seed=2**64), ValueError, r"seed must be less than 2\^64"),
        (lambda: poisson_disc([8, 8], 2, seed=-(2**63) - 1), ValueError, "seed must be at least"),
        (lambda: calibration_region([4], -1), ValueError, "must be at least 0, got -1"),
        (lambda: calibration_region([4, 4, 4, 4], 1), ValueError, "must be 1 or 2 or 3 positive"),
        (lambda: calibration_region(4, 1), ValueError, "grid_size must be 1 or 2 or 3 positive"),  # type: ignore[arg-type]
        (lambda: variable_density([4], 0.5), ValueError, "acceleration must be at least 1"),
        (lambda: variable_density([4], math.nan), ValueError, "acceleration must be at least 1"),
        (lambda: variable_density([4], 2, -1.0), ValueError, "power must be at least 0 and"),
        (lambda: variable_density([8], 4, calibration=4), ValueError, "at most the 2 samples"),
        (lambda: variable_density([4], "4"), TypeError, "acceleration must be a real number"),  # type: ignore[arg-type]
        (lambda: poisson_disc([4, 4], 2, 1j), TypeError, "poisson_disc: power must be a real"),  # type: ignore[arg-type]
        (lambda: calibration_region([4], "2"), TypeError, "must be an integer, got '2'"),  # type: ignore[arg-type]
        (lambda: poisson_disc([64], 4), ValueError, "grid_size must be 2 or 3 positive"),
        (lambda: poisson_disc([8, 8], 4, -1.0), ValueError, "power must be at least 0 and"),
        (lambda: poisson_disc([8, 8], 4, calibration=5), ValueError, "at most the 16 samples"),
        (lambda: poisson_disc([8, 8], 2, seed=1.5), TypeError, "poisson_disc: seed must be an int"),  # type: ignore[arg-type]
        (lambda: variable_density([4], 2, seed="1"), TypeError, "seed must be an integer, got '1'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_poisson_disc_mask_needs_no_lists_of_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = poisson_disc((48, 48), 8, calibration=8)
    monkeypatch.setattr(masks, "_AT_ONCE", 100)
    tracemalloc.start()
    result = poisson_disc((48, 48), 8, calibration=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert torch.equal(result, expected)
    assert peak < 60 * result.numel()  # half of it for distances; lists had 70

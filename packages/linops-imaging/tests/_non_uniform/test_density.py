import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_imaging import NUFFT, density_compensation, phantoms, trajectories


def coordinates(largest: float) -> st.SearchStrategy[float]:
    """Multiples of 2**-20: they are at an edge of the kernel, where it jumps, or far from it."""
    return st.floats(-largest, largest).map(lambda x: round(x * 2**20) / 2**20)


@given(
    st.lists(st.tuples(coordinates(2), coordinates(2.5)), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_it_is_the_iteration_with_the_kernel_written_out(
    points: list[tuple[float, float]], n_iterations: int
) -> None:
    locs = torch.tensor(points, dtype=torch.float64)
    beta = math.pi * math.sqrt(2.5**2 - 1)
    nodes = torch.arange(-9, 10, dtype=torch.float64)

    def spread(at: Tensor) -> Tensor:
        t = (1.2 * at.unsqueeze(-1) - nodes) / 1.5
        inside = (1 - t.square()).clamp(min=0).sqrt()
        values = torch.where(t.abs() < 1, torch.special.i0(beta * inside), 0)
        return (values[:, 0].unsqueeze(2) * values[:, 1].unsqueeze(1)).flatten(1)

    corners = [tuple(f(0).values.round().int().tolist()) for f in (locs.min, locs.max)]
    axes = [torch.arange(low, high + 1) for low, high in zip(*corners, strict=True)]
    matrix, cartesian = spread(locs), spread(torch.cartesian_prod(*axes).double())
    expected = torch.ones(len(locs), dtype=torch.float64)
    target = matrix @ cartesian.sum(0)
    for _ in range(n_iterations):
        expected = expected * target / (matrix @ matrix.T @ expected)
    result = density_compensation(locs, (4, 5), n_iterations)
    assert result.dtype is torch.float32  # locations do not decide it
    torch.testing.assert_close(result, expected.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sizes", [(32,), (12, 9), (6, 5, 4)])
def test_weights_of_a_cartesian_grid_are_one(sizes: tuple[int, ...]) -> None:
    axes = [torch.arange(n, dtype=torch.float64) - n // 2 for n in sizes]
    locs = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
    weights = density_compensation(locs, sizes, n_frame_axes=0)
    torch.testing.assert_close(weights, torch.ones_like(weights), rtol=1e-5, atol=0)
    assert density_compensation(locs[:0], sizes, n_frame_axes=0).shape == locs[:0].shape[:-1]


@pytest.mark.parametrize("spacing", [0.25, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_weights_of_a_uniform_grid_are_its_spacing(spacing: float) -> None:
    at = torch.arange(-int(30 / spacing), int(30 / spacing), dtype=torch.float64) * spacing
    weights = density_compensation(at.unsqueeze(-1), (64,))
    middle = weights[len(at) // 5 : -len(at) // 5]
    assert (middle / spacing - 1).abs().max() < 0.0065


def test_weights_are_areas() -> None:
    """Of a radial trajectory they are rings, but for the first and the last samples."""
    n_spokes, size = 200, 64
    locs = trajectories.radial_2d(n_spokes, 2 * size, size, dtype=torch.float64)
    weights = density_compensation(locs, (size, size), 30)
    assert weights.shape == locs.shape[:-1]
    radius = locs.norm(dim=-1)
    expected = math.pi * radius / n_spokes * 0.5
    inside = (radius[0] > 4) & (radius[0] < 26)
    of_rings = (weights / expected).mean(0)[inside]
    assert ((of_rings - 1).abs() < 0.01).all()
    assert abs(weights.sum() / (math.pi * (size / 2) ** 2) - 1) < 0.05


def test_weighted_data_give_the_image() -> None:
    size = 64
    locs = trajectories.radial_2d(220, 2 * size, size, dtype=torch.float64)
    image = phantoms.shepp_logan([size, size]).double()
    A = NUFFT(locs, (size, size), ("S", "R"), tol=1e-4)
    weights = density_compensation(locs, (size, size))
    # Nothing is sampled in the corners of k-space.
    error = (A.H(weights * A(image)).real - image).norm() / image.norm()
    assert error < 0.21  # 0.206 with the exact areas


@given(st.integers(0, 2), st.integers(1, 2), st.integers(0, 99))
def test_frames_are_trajectories_of_their_own(n_frames: int, n_points: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = [2, 3][:n_frames] + [4, 2][:n_points]
    locs = 4 * torch.rand(*shape, 2, generator=generator, dtype=torch.float64) - 2
    result = density_compensation(locs, (4, 5), 2, n_frame_axes=n_frames)
    one_by_one = [
        density_compensation(own, (4, 5), 2) for own in locs.reshape(-1, *shape[n_frames:], 2)
    ]
    assert torch.equal(result, torch.stack(one_by_one).view(shape))


def test_it_is_not_guessed_which_axes_count_frames() -> None:
    locs = torch.zeros(3, 2, 2, 2)
    with pytest.raises(
        ValueError, match=r"n_frame_axes must say which .* pass 1 if the first axis"
    ):
        density_compensation(locs, (4, 4))
    with pytest.raises(ValueError, match=r"n_frame_axes must be at most 2 for .*, got 3"):
        density_compensation(locs, (4, 4), n_frame_axes=3)
    with pytest.raises(TypeError, match=r"n_frame_axes must be an integer, got False"):
        density_compensation(locs, (4, 4), n_frame_axes=False)
    one = density_compensation(locs, (4, 4), n_frame_axes=0)
    torch.testing.assert_close(one, density_compensation(locs.view(-1, 2), (4, 4)).view(3, 2, 2))


LOCS = torch.zeros(3, 2)


@pytest.mark.parametrize(
    ("locs", "sizes", "n_iterations", "error", "match"),
    [
        (LOCS.int(), (4, 4), 1, TypeError, "must be a tensor of real numbers, got torch.int32"),
        (LOCS.to_sparse(), (4, 4), 1, TypeError, "the locations must be dense, got the layout"),
        (LOCS + 3, (4, 4), 1, ValueError, r"must be in \[-N / 2, N / 2\]"),
        (LOCS + math.nan, (4, 4), 1, ValueError, "the locations must be finite"),
        (LOCS, (4,), 1, ValueError, "must have size 1 for images"),
        (LOCS, (4, 0), 1, ValueError, "grid_size must be"),
        (LOCS, (4, 4), 1.5, TypeError, "n_iterations must be an integer"),
        (LOCS, (4, 4), -1, ValueError, "n_iterations must be at least 0"),
    ],
)
def test_bad_arguments_are_refused(
    locs: Tensor, sizes: tuple[int, ...], n_iterations: int, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"density_compensation: .*{match}"):
        density_compensation(locs, sizes, n_iterations)

"""The X-ray transforms are those of ASTRA."""

import math

import numpy as np
import pytest
import torch

from linops_imaging import FanBeam, ParallelBeam

astra = pytest.importorskip("astra")


@pytest.mark.parametrize("sizes", [(16, 16), (12, 17)])
@pytest.mark.parametrize("spacing", [1.0, 0.7, 1.6])
def test_the_matrix(sizes: tuple[int, int], spacing: float) -> None:
    angles = torch.linspace(0, math.pi, 12, dtype=torch.float64)[:-1] + 0.05
    n_detectors = 29
    A = ParallelBeam(angles, n_detectors, sizes, spacing)
    # ASTRA: rows from the top down are y, columns are x.
    volume = astra.create_vol_geom(sizes[1], sizes[0])
    rays = astra.create_proj_geom("parallel", spacing, n_detectors, angles.numpy())
    projector = astra.create_projector("linear", rays, volume)
    matrix_id = astra.projector.matrix(projector)
    matrix = astra.matrix.get(matrix_id).toarray()
    astra.clear()
    matrix = matrix.reshape(-1, sizes[1], sizes[0])[:, ::-1].transpose(0, 2, 1)
    pixels = torch.eye(math.prod(sizes), dtype=torch.float64).view(-1, *sizes)
    ours = A(pixels).flatten(1).T.reshape(-1, *sizes).numpy()
    assert np.abs(ours - matrix).max() < 1e-4


@pytest.mark.parametrize("distances", [(70.0, 50.0), (45.0, 0.0)])
def test_a_fan_of_rays(distances: tuple[float, float]) -> None:
    """On the CPU, ASTRA has no linear interpolation for fans: lengths in pixels differ a little."""
    sizes, n_detectors, spacing = (40, 48), 61, 1.5
    angles = torch.linspace(0, 2 * math.pi, 18, dtype=torch.float64)[:-1] + 0.05
    volume = astra.create_vol_geom(sizes[1], sizes[0])
    rays = astra.create_proj_geom("fanflat", spacing, n_detectors, angles.numpy(), *distances)
    projector = astra.create_projector("line_fanflat", rays, volume)
    matrix = astra.matrix.get(astra.projector.matrix(projector))
    x0, x1 = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2 for n in sizes)
    x0 = x0.unsqueeze(1)
    image = torch.exp(-(x0 - 4).square() / 60 - (x1 - 3).square() / 40)
    image += 0.5 * torch.exp(-(x0 + 6).square() / 30 - (x1 + 9).square() / 50)
    expected = matrix @ image.T.flip(0).flatten().numpy()
    astra.clear()
    ours = FanBeam(angles, n_detectors, sizes, *distances, spacing)(image).flatten().numpy()
    assert np.linalg.norm(ours - expected) < 0.01 * np.linalg.norm(expected)

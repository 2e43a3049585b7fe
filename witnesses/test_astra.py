"""The X-ray transform is the matrix of ASTRA's linear projector."""

import math

import numpy as np
import pytest
import torch

from linops_imaging import ParallelBeam

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

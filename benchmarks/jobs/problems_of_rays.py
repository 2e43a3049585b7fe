"""The jobs of X-rays: sinograms, and volumes or images."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import avg_pool2d

from jobs.made import noisy, single, solved
from jobs.problem import Array, Data
from linops_imaging import ConeBeam, FanBeam, ParallelBeam, phantoms


def tomography(n: int) -> tuple[Data, Array]:
    """60 views of n x n pixels, 3n/2 rays each: least squares, a weight on the squared image."""
    angles = torch.arange(60, dtype=torch.float64) * (math.pi / 60)
    A = ParallelBeam(angles, 3 * n // 2, n, batch_shape=())
    y = noisy(A(phantoms.shepp_logan([n, n], torch.float64)))
    weight = 20.0
    expected = solved(A, y.double(), weight)
    data: Data = {"sinogram": y.numpy(), "angles": single(angles), "weight": weight}
    return data, expected


def short_scan(n: int) -> tuple[Data, Array]:
    """A fan over 214 degrees, 2n/3 views of n x n pixels, 3n/2 rays each, in steps of 1.5 pixels.

    The source is 3n away from the axis, and the detectors 3n/2. Each library uses its own method,
    until the error against the head is small enough. The line integrals are those of a head of 3n x
    3n pixels.
    """
    n_views = 2 * n // 3
    angles = torch.arange(n_views, dtype=torch.float64) * (math.radians(214) / n_views)
    head = phantoms.shepp_logan([3 * n, 3 * n], torch.float64)
    A = FanBeam(angles, 3 * n // 2, 3 * n, 9.0 * n, 4.5 * n, 4.5, batch_shape=())
    y = noisy(A(head) / 3)
    data: Data = {"sinogram": y.numpy(), "angles": single(angles)}
    return data, avg_pool2d(head[None], 3)[0].numpy()


def cone_beam(n: int) -> tuple[Data, Array]:
    """60 views of n x n x n voxels, n x n rays each, in steps of 1.5 voxels.

    The source is 4n away from the axis, and the detector 2n: least squares, a weight on the squared
    volume. RTK follows rays from the first to the last centre of voxels, and not through the outer
    halves of these, so that its solution differs by 0.03.
    """
    angles = torch.arange(60, dtype=torch.float64) * (math.pi / 30)
    A = ConeBeam(angles, (n, n), (n, n, n), 4.0 * n, 2.0 * n, 1.5, batch_shape=())
    y = noisy(A(phantoms.shepp_logan([n, n, n], torch.float64)))
    weight = 100.0
    expected = solved(A, y.double(), weight, steps=100)
    return {"sinogram": y.numpy(), "angles": single(angles), "weight": weight}, expected

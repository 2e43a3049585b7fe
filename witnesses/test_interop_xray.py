"""X-ray transforms that are made from those of other libraries."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing import dottest
from linops_imaging import ParallelBeam, interop


def smooth(*sizes: int) -> Tensor:
    """Return a blob that is not symmetric, near 0 where a circle ends."""
    rows, columns = (
        (torch.arange(size, dtype=torch.float64) - size // 2) / max(sizes) for size in sizes
    )
    r, c = rows.unsqueeze(1), columns
    blob = torch.exp(-60 * ((r - 0.08).square() + (c + 0.11).square()))
    return blob + 0.5 * torch.exp(-90 * ((r + 0.1).square() + 2 * (c - 0.05).square()))


def check(A: NamedLinop, x: Tensor, expected: Any, tol: float) -> None:
    y = A(x)
    assert y.shape == expected.shape
    assert (y - torch.as_tensor(expected)).norm() < tol * y.norm()
    dottest(A, like=x, dtypes=[torch.float64])
    torch.testing.assert_close(A(torch.stack([x, 2 * x]))[1], 2 * y)
    assert A(x.float()).dtype == torch.float32
    z = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(A(z).square().sum(), z)
    torch.testing.assert_close(gradient, 2 * A.H(y))


@pytest.mark.parametrize("sizes", [(64, 64), (65, 65), (48, 65), (65, 48)])
@pytest.mark.parametrize("circle", [True, False])
def test_scikit_image(sizes: tuple[int, int], circle: bool) -> None:
    transform = pytest.importorskip("skimage.transform")
    theta, image = np.arange(0, 180, 17.0), smooth(*sizes)
    if circle and sizes[0] != sizes[1]:
        with pytest.raises(ValueError, match="from_skimage: image_shape must be square if circle"):
            interop.from_skimage(theta, sizes)
        return
    A = interop.from_skimage(theta, sizes, circle)
    with pytest.warns(UserWarning, match="circle") if circle else pytest.MonkeyPatch.context():
        expected = transform.radon(image.numpy(), theta, circle=circle)
    check(A, image, expected, 0.005)


@pytest.mark.parametrize("kind", ["linear", "line", "strip", "line_fanflat", "strip_fanflat"])
@pytest.mark.parametrize("side", [1.0, 0.25])
def test_a_projector_of_astra(kind: str, side: float) -> None:
    astra = pytest.importorskip("astra")
    sizes = (16, 13)
    halves = [side * size / 2 for size in sizes]
    volume = astra.create_vol_geom(*sizes, -halves[1], halves[1], -halves[0], halves[0])
    angles, is_fan = np.linspace(0, math.pi, 7), "fan" in kind
    distances = [40 * side, 20 * side] if is_fan else []
    rays = astra.create_proj_geom(
        "fanflat" if is_fan else "parallel", 1.3 * side, 21, angles, *distances
    )
    projector = astra.create_projector(kind, rays, volume)
    A = interop.from_astra(projector)
    image = torch.rand(sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = astra.create_sino(image.float().numpy(), projector)[1]
    back = astra.create_backprojection(expected, projector)[1]
    astra.clear()
    check(A, image, expected, 1e-5)
    np.testing.assert_allclose(A.H(torch.from_numpy(expected)).numpy(), back, rtol=1e-3)
    assert any(isinstance(part, ParallelBeam) for part in A.modules()) == (kind == "linear")
    # The geometries alone give ours, with another interpolation than theirs.
    ours = interop.from_astra(rays, volume)
    x = smooth(*sizes)
    assert (ours(x) - A(x)).norm() < 0.1 * A(x).norm()

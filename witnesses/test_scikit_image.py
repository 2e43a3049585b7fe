"""X-rays, filtered back projection, phantom, total variation and deconvolution of scikit-image."""

import numpy as np
import pytest
import torch

from linops_core import Convolution
from linops_imaging import Gradient, ParallelBeam, fbp, phantoms
from linops_solvers import group_soft_threshold, l2_squared, pdhg, richardson_lucy

transform = pytest.importorskip("skimage.transform")
data = pytest.importorskip("skimage.data")
restoration = pytest.importorskip("skimage.restoration")


def smooth(size: int) -> torch.Tensor:
    at = (torch.arange(size, dtype=torch.float64) - size // 2) / size
    x, y = at.unsqueeze(1), at
    inside = (x.square() + y.square()).sqrt() < 0.48
    blob = torch.exp(-60 * ((x - 0.1).square() + (y + 0.15).square()))
    return inside * (blob + 0.5 * torch.exp(-90 * ((x + 0.2).square() + 2 * y.square())))


def theirs(image: torch.Tensor) -> np.ndarray:
    """Return the image as scikit-image has it: axis 0 of ours points to the right."""
    return image.T.flip(0).numpy()


def test_line_integrals_and_their_inverse() -> None:
    size = 65  # whose middle is a pixel, about which scikit-image turns
    degrees = np.arange(0, 180, 7.0)
    image = smooth(size)
    A = ParallelBeam(torch.from_numpy(np.deg2rad(degrees)), size, size)
    sinogram = transform.radon(theirs(image), degrees, circle=True).T
    ours = A(image).numpy()
    assert np.linalg.norm(ours - sinogram) < 0.01 * np.linalg.norm(sinogram)

    for window in ("ramp", "shepp-logan", "cosine", "hamming", "hann"):
        inverse = transform.iradon(ours.T, degrees, filter_name=window, circle=True)
        result = fbp(torch.from_numpy(ours), A, window)
        assert np.linalg.norm(theirs(result) - inverse) < 0.06 * np.linalg.norm(inverse)


def test_the_head_of_shepp_and_logan() -> None:
    """scikit-image has it as a picture of 400 pixels a side, drawn by another program."""
    picture = data.shepp_logan_phantom()
    ours = theirs(phantoms.shepp_logan([400, 400], torch.float64))
    different = np.abs(picture - ours) > 0.05
    assert different.mean() < 0.02


@pytest.mark.parametrize("weight", [0.05, 0.1, 0.3])
def test_an_image_of_least_total_variation(weight: float) -> None:
    generator = torch.Generator().manual_seed(0)
    head = phantoms.shepp_logan([64, 64], torch.float64)
    noisy = head + 0.1 * torch.randn(head.shape, dtype=head.dtype, generator=generator)
    G = Gradient(("Nx", "Ny"), head.shape, boundary="replicate")

    def objective(x: torch.Tensor) -> float:
        return float(0.5 * (x - noisy).square().sum() + weight * G(x).norm(dim=0).sum())

    ours = pdhg(G, group_soft_threshold(weight), l2_squared(1.0, noisy), noisy, 2000, eps_rel=1e-6)
    result = restoration.denoise_tv_chambolle(
        noisy.numpy(), weight=weight, eps=1e-8, max_num_iter=2000
    )
    scikit = torch.from_numpy(result)
    assert objective(ours) <= objective(scikit) < 0.7 * objective(noisy)
    assert (ours - scikit).norm() < 0.02 * scikit.norm()


@pytest.mark.parametrize("shape", [(24, 20), (14, 13, 12)])
def test_richardson_lucy_of_an_image_with_a_dark_border(shape: tuple[int, ...]) -> None:
    """At a border with light they differ: scikit-image leaves out the sensitivity of pixels."""
    generator = torch.Generator().manual_seed(0)
    psf = torch.rand((3,) * len(shape), dtype=torch.float64, generator=generator)
    psf /= psf.sum()
    scene = torch.zeros(shape, dtype=torch.float64)
    inner = scene[tuple(slice(4, -4) for _ in shape)]
    inner += torch.rand(inner.shape, dtype=torch.float64, generator=generator)
    y = torch.poisson(100 * Convolution(psf)(scene).clamp(min=0), generator=generator)
    theirs = restoration.richardson_lucy(y.numpy(), psf.numpy(), 30, clip=False)
    half = torch.full_like(y, 0.5)  # their first image
    for boundary in ("extended", "zeros"):
        ours = richardson_lucy(y, psf, half, 30, boundary=boundary)
        torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=1e-5, atol=1e-6)

"""The X-ray transform, filtered back projection and the phantom are those of scikit-image."""

import numpy as np
import pytest
import torch

from linops_imaging import ParallelBeam, fbp, phantoms

transform = pytest.importorskip("skimage.transform")
data = pytest.importorskip("skimage.data")


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
        found = fbp(torch.from_numpy(ours), A, window)
        assert np.linalg.norm(theirs(found) - inverse) < 0.06 * np.linalg.norm(inverse)


def test_the_head_of_shepp_and_logan() -> None:
    """scikit-image has it as a picture of 400 pixels a side, drawn by another program."""
    picture = data.shepp_logan_phantom()
    ours = theirs(phantoms.shepp_logan([400, 400], torch.float64))
    different = np.abs(picture - ours) > 0.05
    assert different.mean() < 0.02

"""Images of Debian's package ``mricron-data``, whose facts are known: the head of one man."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from linops_imaging.io import read_nifti

pytest.importorskip("nibabel")
TEMPLATES = Path("/usr/share/mricron/templates")

pytestmark = pytest.mark.skipif(not TEMPLATES.is_dir(), reason="mricron-data is not installed")


def test_a_head_in_the_space_of_the_atlas() -> None:
    """Colin Holmes' head on the grid of the MNI atlas: voxels of 1 mm, 181 x 217 x 181 of them."""
    image, affine = read_nifti(TEMPLATES / "ch2.nii.gz")
    assert image.shape == (181, 217, 181) and image.dtype == torch.uint8
    assert affine[:3, :3].equal(torch.eye(3, dtype=torch.float64))
    assert affine[:3, 3].sub(torch.tensor([-90, -125, -72])).abs().max() <= 1
    head = image.double()
    weight = head.sum()
    for axis, expected in enumerate([0, -18, 8]):  # mm from the anterior commissure
        at = torch.arange(image.shape[axis]) + affine[axis, 3]
        others = [other for other in range(3) if other != axis]
        assert abs((head.sum(others) * at).sum() / weight - expected) < 12


def test_the_bytes_are_those_behind_the_header() -> None:
    result, _ = read_nifti(TEMPLATES / "ch2bet.nii.gz")
    with gzip.open(TEMPLATES / "ch2bet.nii.gz") as file:
        raw = np.frombuffer(file.read(), "u1")[352:]
    assert np.array_equal(result.numpy().ravel(order="F"), raw)

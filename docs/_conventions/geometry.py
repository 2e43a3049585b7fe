"""Places of voxels in other libraries."""

import numpy as np
import torch
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "mrzerocore",
    guess="`VoxelGridPhantom.interpolate` keeps what is in the phantom in its place",
    here="`Interpolate` at the places of the new voxels, (r - n // 2) times their size",
)
def resized_phantoms() -> str:
    from MRzeroCore import VoxelGridPhantom

    places = torch.arange(32.0) - 16
    blob = torch.exp(-((places[:, None] - 3) ** 2 + places**2) / 18)[..., None]
    ones = torch.ones_like(blob)
    coil = ones[None].to(torch.complex64)
    affine = torch.diag(torch.tensor([2.0, 2, 2, 1]))
    phantom = VoxelGridPhantom(blob, ones, ones, ones, ones, 0 * ones, coil, coil, affine)
    seen = []
    for n in (32, 16, 8, 64):
        data = phantom.interpolate(n, n, 1).build(1e-9)
        middle = 1000 * (data.voxel_pos * data.PD[:, None]).sum(0) / data.PD.sum()
        seen.append(float(middle[0]))
    assert np.allclose(seen, [6, 5, 3, 6.5], atol=0.01), seen
    return (
        "corners of the grid stay, where voxels have their places at (r - n // 2): a blob at 6 mm "
        "of 32 voxels of 2 mm is at 5 mm with 16 voxels, at 3 mm with 8 and at 6.5 mm with 64"
    )

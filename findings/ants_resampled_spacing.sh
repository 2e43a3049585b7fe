#!/usr/bin/env bash
# ANTsPy, resample_image to a number of voxels. Guessed: twice as many voxels are half as large and
# cover the same field, as in scipy.ndimage.zoom with grid_mode or torch's interpolate.
# Seen on 29 November 2026 (antspyx 0.5.3, NumPy 2.4.6, Python 3.11): the middles of the first and of
# the last voxel stay, so the field shrinks: 3 voxels of 1 mm become 6 of 0.4 mm. Resampled by spacing
# to 0.5 mm, there are 6 from the middle of the first on, and the last one, at 2.5 mm, is 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 antspyx==0.5.3
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import ants
import numpy as np

ramp = np.broadcast_to(np.arange(3, dtype=np.float32)[:, None], (3, 4)).copy()
image = ants.from_numpy(ramp, spacing=(1.0, 1.0))
voxels = ants.resample_image(image, (6, 8), use_voxels=True, interp_type=0)
spacing = ants.resample_image(image, (0.5, 0.5), use_voxels=False, interp_type=0)
print("antspyx", version("antspyx"), "of 3 x 4 voxels of 1 mm, made from 6 x 8 voxels:")
for name, found in (("voxels", voxels), ("spacing", spacing)):
    sizes = tuple(round(size, 4) for size in found.spacing)
    print(f"{name:8} {found.shape} of {sizes} mm from {found.origin}:", found.numpy()[:, 2].round(3))
assert np.allclose(voxels.spacing, (2 / 5, 3 / 7)) and voxels.origin == (0, 0)
assert np.allclose(voxels.numpy()[:, 2], np.arange(6) * 0.4, atol=1e-5), "the behaviour has changed"
assert np.allclose(spacing.spacing, 0.5), "the behaviour has changed"
assert np.allclose(spacing.numpy()[:, 2], [0, 0.5, 1, 1.5, 2, 0]), "the behaviour has changed"
PYTHON

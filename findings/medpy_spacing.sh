#!/usr/bin/env bash
# MedPy with voxels that are not cubes of 1 mm. Guessed: anisotropic_diffusion with voxelspacing spreads as
# far in mm along each axis, where there are no edges, and samples of resample have the spacing that the
# header says.
# Seen on 29 November 2026 (MedPy 0.5.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): differences are divided
# by the spacing and not by its square, so a point spreads by 4 mm along voxels of 2 mm and by 2.83 mm along
# those of 1 mm. resample keeps the first and the last sample: 10 voxels of 2 mm become 20 with a header
# of 1 mm, which are 0.947 mm apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 SimpleITK==2.5.7 \
    medpy==0.5.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from medpy.filter.image import resample
from medpy.filter.smoothing import anisotropic_diffusion
from medpy.io import header

print("MedPy", version("medpy"))
n, steps, speed, spacing = 61, 40, 0.1, (2.0, 1.0)
point = np.zeros((n, n))
point[n // 2, n // 2] = 1
# a large kappa knows no edges: what is left is heat, with a variance of 2 t
spread = anisotropic_diffusion(point, steps, kappa=1e9, gamma=speed, voxelspacing=spacing)
widths = []
for axis in (0, 1):
    places = (np.arange(n) - n // 2) * spacing[axis]
    widths.append(float(np.sqrt(spread.sum(1 - axis) @ places**2 / spread.sum())))
expected = np.sqrt(2 * speed * steps)
print(f"a point spreads by {widths[0]:.2f} and {widths[1]:.2f} mm, expected {expected:.2f} mm")
assert np.allclose(widths, [4, expected], atol=0.01), "the behaviour has changed"

ramp = np.tile(2.0 * np.arange(10)[:, None], (1, 10))  # the value is the place in mm
start = header.Header(spacing=(2.0, 2.0))
values, found = resample(ramp, start, 1.0, bspline_order=1)
apart = np.diff(values[:, 0])
print(f"header: {found.get_voxel_spacing()} mm; values are {apart.mean():.3f} mm apart")
assert len(values) == 20 and tuple(found.get_voxel_spacing()) == (1, 1)
assert np.allclose(apart, 18 / 19), "the behaviour has changed"
PYTHON

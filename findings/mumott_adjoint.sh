#!/usr/bin/env bash
# mumott, SAXSProjector (tensor tomography on CPUs). Guessed: "adjoint" is the adjoint of "forward" for
# each rotation, up to rounding. Seen on 29 November 2026 (mumott 2.3, NumPy 2.4.6, Python 3.11): for the
# identity it is. For others, also those of 90 degrees, inner products of random volumes of 8 and 9 voxels
# on each side differ by 1 to 20 % of the norms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 matplotlib==3.8.4 mumott==2.3
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import logging
from importlib.metadata import version

logging.disable(logging.CRITICAL)

import numpy as np
from mumott.core.geometry import Geometry, GeometryTuple
from mumott.methods.projectors import SAXSProjector
from scipy.spatial.transform import Rotation

print("mumott", version("mumott"))
for n in (8, 9):
    for axis in "xyz":
        gaps = {}
        for degrees in (0, 30, 90):
            geometry = Geometry()
            rotation = Rotation.from_euler(axis, degrees, degrees=True).as_matrix()
            geometry.append(GeometryTuple(rotation=rotation, j_offset=0.0, k_offset=0.0))
            geometry.volume_shape, geometry.projection_shape = np.array([n] * 3), np.array([n] * 2)
            projector, random, found = SAXSProjector(geometry), np.random.default_rng(0), []
            for _ in range(5):
                x = random.standard_normal((n, n, n, 1)).astype(projector.dtype)
                y = random.standard_normal((1, n, n, 1)).astype(projector.dtype)
                Ax, Ay = projector.forward(x), projector.adjoint(y)
                gap = abs((Ax * y).sum() - (x * Ay).sum())
                found.append(float(gap / np.linalg.norm(Ax) / np.linalg.norm(y)))
            gaps[degrees] = max(found)
        print(f"{n} voxels, about {axis}:", {d: f"{gap:.1e}" for d, gap in gaps.items()})
        assert gaps[0] < 1e-12 and gaps[30] > 0.01 and gaps[90] > 0.01, "the behaviour has changed"
PYTHON

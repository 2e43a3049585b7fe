#!/usr/bin/env bash
# PyTomography, SPECTSystemMatrix without blur and attenuation. Guessed: "backward" is the transpose of
# "forward", as the documentation of SystemMatrix says, for each angle. Seen on 29 November 2026
# (pytomography 3.4.0, torch 2.13.0, NumPy 2.4.6, CPU, Python 3.11): at 0 and 90 degrees it is. At 30
# degrees it turns back by interpolation, and inner products of random volumes of 16 and 17 pixels on a
# side differ by up to 3 % of the norms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 pytomography==3.4.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
from pytomography.metadata.SPECT import SPECTObjectMeta, SPECTProjMeta
from pytomography.projectors.SPECT import SPECTSystemMatrix

print("pytomography", version("pytomography"))
torch.manual_seed(0)
for n in (16, 17):
    gaps = {}
    for degrees in (0, 30, 90):
        volume = SPECTObjectMeta(dr=(0.4, 0.4, 0.4), shape=(n, n, 4))
        views = SPECTProjMeta((n, 4), (0.4, 0.4), np.array([float(degrees)]))
        A = SPECTSystemMatrix([], [], volume, views)
        found = []
        for _ in range(10):
            x = torch.randn(n, n, 4)
            Ax = A.forward(x)
            y = torch.randn_like(Ax)
            gap = abs(float((Ax * y).sum() - (x * A.backward(y)).sum()))
            found.append(gap / float(Ax.norm() * y.norm()))
        gaps[degrees] = max(found)
    print(f"{n} pixels:", {degrees: f"{gap:.1e}" for degrees, gap in gaps.items()})
    assert gaps[0] < 1e-5 and gaps[90] < 1e-5 and gaps[30] > 0.004, "the behaviour has changed"
PYTHON

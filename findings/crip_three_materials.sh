#!/usr/bin/env bash
# crip, deDecompReconVolCon, which decomposes images of two energies into three materials whose volumes add up
# to 1. Guessed: the fractions of a known mixture, as a system of three equations gives them.
# Seen on 30 November 2026 (crip 1.8.5, NumPy 2.4.6, OpenCV 5.0.0, Python 3.11): fractions 0.5, 0.3, 0.2 become
# -1.77, 0.63, 1.17. The images and the right-hand side of the constraint change places: the image of high
# energy must be the sum of the fractions, and zero that of high energy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 matplotlib==3.11.2 \
    opencv-python==5.0.0.93 periodictable==2.1.0 pydicom==3.0.2 scikit-image==0.26.0 \
    tifffile==2026.3.3 natsort==8.4.0 crip==1.8.5
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from crip.spec import deDecompReconVolCon, teDecompRecon

print("crip", version("crip"))
attenuation = np.array([[0.020, 0.019], [0.050, 0.035], [0.030, 0.010]])  # low, high energy; 1 / mm
fractions = np.array([0.5, 0.3, 0.2])
low, high = (np.full((2, 2), each) for each in fractions @ attenuation)
system = np.vstack([attenuation.T, np.ones(3)])
right = np.linalg.solve(system, [low[0, 0], high[0, 0], 1])
assert np.allclose(right, fractions)
found = np.array([each[0, 0] for each in deDecompReconVolCon(low, high, *attenuation.tolist())])
swapped = np.linalg.solve(system, [low[0, 0], 0, high[0, 0]])
print("fractions", fractions, "found", found.round(3), "with sum", found.sum().round(3))
assert np.allclose(found, swapped), "the behaviour has changed"
assert np.abs(found - fractions).max() > 1
# three energies with a third equation of ones are right
ones = np.ones_like(low)
three = teDecompRecon(low, high, ones, *([*each, 1.0] for each in attenuation))
print("teDecompRecon with an image of ones:", [float(each[0, 0].round(3)) for each in three])
assert np.allclose([each[0, 0] for each in three], fractions)
PYTHON

#!/usr/bin/env bash
# adrt (discrete Radon transform along digital lines). Guessed: the transpose is what the documentation of
# bdrt says, utils.truncate(bdrt(y)).mean(axis=-3). Seen on 29 November 2026 (adrt 1.2.0, NumPy 2.4.6,
# Python 3.11): it is a quarter of the transpose: the four quadrants have to be added. Against the matrix of
# adrt in float64 the sum is exact.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 adrt==1.2.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import adrt
import numpy as np

print("adrt", version("adrt"))
for n in (4, 8):
    matrix = np.stack([adrt.adrt(row.reshape(n, n)).ravel() for row in np.eye(n * n)], axis=1)
    shape = adrt.adrt(np.zeros((n, n))).shape
    y = np.random.default_rng(0).standard_normal(shape)
    right = (matrix.T @ y.ravel()).reshape(n, n)
    quadrants = adrt.utils.truncate(adrt.bdrt(y))
    documented = np.linalg.norm(quadrants.mean(axis=-3)) / np.linalg.norm(right)
    gap = abs(quadrants.sum(axis=-3) - right).max()
    print(f"{n} pixels: the documented transpose has {documented:.4f} of the norm; the sum is off by {gap:.0e}")
    assert np.allclose(quadrants.mean(axis=-3), right / 4), "the behaviour has changed"
    assert gap < 1e-12, "the behaviour has changed"
PYTHON

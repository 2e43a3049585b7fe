#!/usr/bin/env bash
# pulpy, small-tip pulses by stspa(target, sens, coord, dt, explicit=). Guessed: the explicit matrix is that of
# the NUFFT, and both designs excite the target.
# Seen on 30 November 2026 (pulpy 1.9.0, SigPy 0.1.27, NumPy 2.4.6, Python 3.11): the explicit one takes
# coordinates in radians per pixel, not in cycles per field of view. With these it excites a target at (2, 4) of
# 16 x 16 pixels at (2.67, -4.79): pixels are 16 / 15 apart, their middle is between two, and the second axis
# is mirrored.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 numba==0.68.1 \
    PyWavelets==1.9.0 tqdm==4.70.1 sigpy==0.1.27 pulpy==1.9.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import sigpy.mri  # stspa needs it
from pulpy.rf.ptx import stspa

print("pulpy", version("pulpy"), "sigpy", version("sigpy"))
size = 16
pixels = np.arange(size) - size // 2
X, Y = np.meshgrid(pixels, pixels, indexing="ij")
target = np.exp(-((X - 2) ** 2 + (Y - 4) ** 2) / 4).astype(complex)
k = np.stack([X.ravel(), Y.ravel()], axis=-1).astype(float)  # cycles per field of view
sens = np.ones((1, size, size), complex)
cases = {
    "NUFFT": (k, False, (2, 4)),
    "explicit, the same coordinates": (k, True, None),
    "explicit, radians per pixel": (k * 2 * np.pi / size, True, (2.667, -4.789)),
}
for name, (coord, explicit, expected) in cases.items():
    pulse = stspa(target, sens, coord, 4e-6, alpha=1e-3, max_iter=200, tol=1e-8, explicit=explicit)
    # the excitation of the pulse: a sum over its samples, at each pixel
    phase = 2 * np.pi / size * (X[..., None] * k[:, 0] + Y[..., None] * k[:, 1])
    excited = np.exp(1j * phase) @ pulse.ravel()
    excited /= np.abs(excited).max()
    weight = np.abs(excited) ** 2
    place = [float((weight * axis).sum() / weight.sum()) for axis in (X, Y)]
    error = np.abs(excited - target).max()
    print(f"{name}: excited about {np.round(place, 2)}, target (2, 4); largest error {error:.3f}")
    assert (error > 0.5) == explicit, "the behaviour has changed"
    assert expected is None or np.allclose(place, expected, atol=0.02), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# PyWavelets, cwt with complex wavelets. Guessed: all of them find exp(+i w t) at the scale of w, and
# nearly nothing of exp(-i w t).
# Seen on 29 November 2026 (PyWavelets 1.9.0, NumPy 2.4.6, Python 3.11): "cmor", "shan" and "fbsp" do.
# The complex Gaussians "cgau1" to "cgau8" find exp(-i w t), 7 to 82 times as large as exp(+i w t): as
# their phase turns backwards, phases of transforms have the other sign.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 PyWavelets==1.9.0
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import pywt

t, scale = np.arange(1024), np.array([32.0])
names = [f"cgau{order}" for order in range(1, 9)]
seen = {}
for name in [*names, "cmor1.5-1.0", "shan1.5-1.0", "fbsp2-1.5-1.0"]:
    frequency = pywt.scale2frequency(name, scale)[0]
    waves = (np.exp(sign * 2j * np.pi * frequency * t) for sign in (1, -1))
    seen[name] = [float(abs(pywt.cwt(wave, scale, name)[0][0, 512])) for wave in waves]
print("PyWavelets", version("PyWavelets"), "magnitude of exp(+i w t) and exp(-i w t):")
for name, (positive, negative) in seen.items():
    print(f"{name:15} {positive:.3f} {negative:.3f}")
    small, large = (positive, negative) if name in names else (negative, positive)
    assert large > 6 * small, "the behaviour has changed"
PYTHON

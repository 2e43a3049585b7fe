#!/usr/bin/env bash
# HoloSpy, reconstruct. Guessed: with an output_shape the wave is the same on fewer pixels, with the
# amplitude and the phase that it has without. Seen on 30 November 2026 (HoloSpy 0.4.0, NumPy 2.4.6, SciPy
# 1.17.1, Python 3.11): the amplitude is multiplied by the number of pixels of the hologram over that of the
# output, by 4 for half of the size; and from an odd size to an odd size the wave has a ramp of a whole turn
# of phase along both axes. Both are gone in the ratio to a reference wave of the same shape only.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 lazy_loader==0.4
"$folder/env/bin/python" -m pip install --quiet --no-deps holospy==0.4.0 # these functions need no HyperSpy
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from holospy.reconstruct import estimate_sideband_position, reconstruct

print("holospy", version("holospy"))
amplitude, carrier = 1.5, 16
for n, m, turns in ((64, 32, 0), (64, 16, 0), (66, 33, 0), (65, 33, 1), (65, 13, 1)):
    y = np.arange(n)[:, None] * np.ones(n)
    hologram = 1 + amplitude**2 + 2 * amplitude * np.cos(2 * np.pi * carrier * y / n)  # a flat wave
    place = tuple(int(i) for i in estimate_sideband_position(hologram, (1.0, 1.0), sb="lower"))
    for shape in (None, (m, m)):
        wave = reconstruct(hologram, (1.0, 1.0), 4.0, place, 0.5, output_shape=shape)
        steps = [np.angle((np.roll(wave, -1, axis) * wave.conj()).mean()) for axis in (0, 1)]
        found = np.array(steps) * len(wave) / (2 * np.pi)
        size = abs(wave).mean()
        print(f"{n} pixels, output_shape={shape}: amplitude {size:.3f}, turns of phase {np.round(found, 3) + 0.0}")
        assert np.isclose(size, amplitude * (n / len(wave)) ** 2, rtol=1e-3), "the behaviour has changed"
        assert np.allclose(abs(found), turns if shape else 0, atol=1e-3), "the behaviour has changed"
PYTHON

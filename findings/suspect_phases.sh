#!/usr/bin/env bash
# suspect, phases of spectra. Guessed: adjust_phase leaves the phase at fixed_frequency as it is, as its
# documentation says, and the estimates of mag_real use the range that they get, in Hz or ppm.
# Seen on 29 November 2026 (suspect 0.6.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): with fixed_frequency=100
# the phase at -100 Hz is kept, and that at 100 Hz turns as if it were 200 Hz away. range_hz is used; range_ppm
# is not, without a word: the estimate is that of the whole spectrum.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 \
    pydicom==3.0.2 lmfit==1.3.4 Parsley==1.3 parse==1.22.4 PyWavelets==1.9.0 suspect==0.6.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import suspect
from suspect.processing.phase import mag_real

print("suspect", version("suspect"))
t = np.arange(1000) * 1e-3
decay = np.exp(-5 * t)
# a line at 100 Hz with a phase of -0.5, and higher ones with phases that no two orders fit
lines = ((1, 100, -0.5), (3, -150, 1), (3, -300, -1))
signal = sum(height * np.exp(2j * np.pi * f * t + 1j * phase) for height, f, phase in lines)
data = suspect.MRSData(decay * signal, 1e-3, 123.0)
spectrum = data.spectrum()
turned = spectrum.adjust_phase(0, 0.001, fixed_frequency=100)
hertz = spectrum.frequency_axis()
turns = {
    f: float(np.angle(np.asarray(turned / spectrum)[np.isclose(hertz, f)])[0]) for f in (100, -100)
}
print("fixed_frequency=100 turns the phases at", turns)
assert np.allclose(list(turns.values()), [0.2, 0]), "the behaviour has changed"

in_ppm = data.hertz_to_ppm(120), data.hertz_to_ppm(80)
assert data.slice_ppm(*sorted(in_ppm, reverse=True)) == data.slice_hz(80, 120)
ranges = {
    "whole": {},
    "range_hz": {"range_hz": (80, 120)},
    "range_ppm": {"range_ppm": sorted(in_ppm, reverse=True)},
}
found = {}
for name, each in ranges.items():
    orders = np.asarray(mag_real(data, **each), float)
    correction = orders[0] + orders[1] * 100
    found[name] = float(np.angle(np.exp(1j * correction)))
print("estimated correction at 100 Hz, where 0.5 is right:", found)
assert np.isclose(found["range_hz"], 0.5, atol=0.05), "the behaviour has changed"
assert found["range_ppm"] == found["whole"], "the behaviour has changed"
assert abs(found["whole"] - 0.5) > 0.2, "the behaviour has changed"
PYTHON

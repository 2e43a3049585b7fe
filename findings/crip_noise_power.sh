#!/usr/bin/env bash
# crip, noise power spectra of CT images. Guessed: nps2D of white noise of variance 1 and pixels of 1 mm is 1
# for any number of realizations, which only make it smoother, and nps2DRadAvg averages it over rings about
# frequency 0.
# Seen on 30 November 2026 (crip 1.8.5, NumPy 2.4.6, OpenCV 5.0.0, Python 3.11): the transforms are averaged,
# not their squares, so 64 realizations have 1 / 64 of the power, and 1 / 3969 with detrend="mutual". The
# rings are about a corner of the spectrum: power at radius 10 is found at 35 to 55.
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
from crip.lowdose import nps2D, nps2DRadAvg

print("crip", version("crip"))
noise = np.random.default_rng(0).standard_normal((64, 64, 64))
for count in (1, 4, 64):
    rois = noise[:count]
    right = np.mean(np.abs(np.fft.fft2(rois)) ** 2) / 64**2
    found = {"individual": float(nps2D(rois, 1.0).mean())}
    expected = {"individual": 1 / count}
    if count > 1:
        found["mutual"] = float(nps2D(rois, 1.0, detrend="mutual").mean())
        expected["mutual"] = 1 / (count - 1) ** 2
    print(f"{count} realizations of variance {right:.3f}: {found}")
    assert np.isclose(right, 1, atol=0.02)  # by Parseval
    for name, each in found.items():
        assert np.isclose(each, expected[name], rtol=0.05), "the behaviour has changed"

index = np.arange(64) - 32  # frequency 0 is in the middle, as fftshift leaves it
radius = np.hypot(index[:, None], index)
ring = 2.0 * (np.abs(radius - 10) < 0.5)
found = nps2DRadAvg(ring)  # of radius 1 to 64
print("power at radius 10 is found at radii", np.flatnonzero(found) + 1)
assert ring[np.abs(radius - 10) < 0.5].mean() == 2
assert found[9] == 0, "the behaviour has changed"
assert np.flatnonzero(found)[0] >= 34, "the behaviour has changed"
PYTHON

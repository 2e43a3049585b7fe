#!/usr/bin/env bash
# crip, tools for images of CT. Guessed: binning adds or averages pixels, fovCrop keeps a disc about the middle
# of the image, and permute to a plane and back returns the volume.
# Seen on 30 November 2026 (crip 1.8.5, NumPy 2.4.6, OpenCV 5.0.0, Python 3.11): binning takes each n-th pixel
# and leaves out the others, with all of the noise and aliases. The disc is a pixel too far along both axes.
# From sagittal to coronal and back is another order of axes, of the same shape for a cube.
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
from crip.postprocess import fovCrop
from crip.shared import binning, permute

print("crip", version("crip"))
noise = np.random.default_rng(0).standard_normal((512, 512))
found = binning(noise, (4, 4))
means = noise.reshape(128, 4, 128, 4).mean(axis=(1, 3))
print(f"noise of 1 after binning by 4: {found.std():.3f}, of means {means.std():.3f}")
assert np.isclose(means.std(), 0.25, atol=0.01)
assert np.array_equal(found, noise[::4, ::4]), "the behaviour has changed"

for size in (8, 9):
    disc = fovCrop(np.ones((size, size)), 2)
    middle = [float((disc.sum(axis) * np.arange(size)).sum() / disc.sum()) for axis in (1, 0)]
    print(f"fovCrop of {size} x {size}: middle of the disc at {middle}, of the image {(size - 1) / 2}")
    assert np.allclose(middle, (size + 1) / 2), "the behaviour has changed"

volume = np.random.default_rng(1).standard_normal((4, 4, 4))
planes = ("sagittal", "coronal", "transverse")
for start in planes:
    for end in planes:
        back = permute(permute(volume, start, end), end, start)
        same = np.array_equal(back, volume)
        print(f"permute from {start} to {end} and back: {'the volume' if same else 'another one'}")
        assert same != ({start, end} == {"sagittal", "coronal"}), "the behaviour has changed"
PYTHON

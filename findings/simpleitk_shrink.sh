#!/usr/bin/env bash
# SimpleITK, Shrink(image, factors), which takes each voxel in a grid of them. Guessed: values keep their
# place in space, as with BinShrink, Expand and Resample.
# Seen on 29 November 2026 (SimpleITK 2.5.7, NumPy 2.4.6, Python 3.11): for odd factors. For 2, the values
# of the voxels 1, 3, 5 are put at 0.5, 2.5, 4.5, and for 4 those of 2, 6 at 1.5, 5.5: the image moves by
# half a voxel along each axis.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 SimpleITK==2.5.7
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import SimpleITK as sitk

print("SimpleITK", version("SimpleITK"))
ramp = sitk.GetImageFromArray(np.tile(np.arange(24.0), (24, 1)))  # at x = 5 mm, the value is 5
for factor in (2, 3, 4):
    for name, function in (("BinShrink", sitk.BinShrink), ("Shrink", sitk.Shrink)):
        small = function(ramp, [factor, factor])
        values = sitk.GetArrayFromImage(small)[2]
        places = small.GetOrigin()[0] + small.GetSpacing()[0] * np.arange(len(values))
        print(f"{name} by {factor}: {values[:3]} at {places[:3]} mm")
        expected = 0.5 if name == "Shrink" and factor % 2 == 0 else 0
        assert np.allclose(values - places, expected), "the behaviour has changed"
    back = sitk.GetArrayFromImage(sitk.Resample(sitk.Shrink(ramp, [factor, factor]), ramp))
    error = back[12, 8:16] - np.arange(8, 16)
    print(f"  resampled to the first grid: {error.mean():.2f} more than before")
    assert np.allclose(error, 0 if factor % 2 else 0.5), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# nii-rs, get_direction() and set_direction(), "ITK style". Guessed: columns of length 1, as in SimpleITK, so
# that image.set_direction(image.get_direction()) changes nothing.
# Seen on 29 November 2026 (nii-rs 0.1.2, SimpleITK 2.5.7, nibabel 5.4.2, NumPy 2.4.6, Python 3.11): the columns
# that come back have the length of the voxels, those that are set must have length 1. Voxels of 2, 3 and
# 4 mm become voxels of 4, 9 and 16 mm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 nibabel==5.4.2 SimpleITK==2.5.7 \
    nii-rs==0.1.2
"$folder/env/bin/python" -W ignore - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version

import nibabel
import nii
import numpy as np
import SimpleITK as sitk

print("nii-rs", version("nii-rs"))
turn = np.deg2rad(20)
rotation = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
sizes = np.array([2.0, 3, 4])
affine = np.eye(4)
affine[:3, :3] = rotation * sizes
file, copy = f"{sys.argv[1]}/image.nii", f"{sys.argv[1]}/copy.nii"
nibabel.save(nibabel.Nifti1Image(np.zeros((5, 6, 7), np.float32), affine), file)
image = nii.read_image(file)
found = np.array(image.get_direction())
right = np.array(sitk.ReadImage(file).GetDirection()).reshape(3, 3)
print("nii-rs:", found.round(3).tolist(), "SimpleITK:", right.round(3).tolist())
assert np.allclose(right, np.diag([-1, -1, 1]) @ rotation, atol=1e-6)
assert np.allclose(found, right * sizes, atol=1e-5), "the behaviour has changed"
image.set_direction(image.get_direction())
nii.write_image(image, copy)
zooms = np.array(nibabel.load(copy).header.get_zooms())
print("voxels after image.set_direction(image.get_direction()):", zooms, "mm")
assert np.allclose(zooms, sizes**2, atol=1e-4), "the behaviour has changed"
PYTHON

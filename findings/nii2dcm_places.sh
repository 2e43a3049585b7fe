#!/usr/bin/env bash
# nii2dcm, a converter from NIfTI to DICOM. Guessed: each value keeps its place in the patient, as DICOM's
# coordinates are NIfTI's with x and y negated, and values that do not fit are refused or scaled.
# Seen on 29 November 2026 (nii2dcm 0.1.6, nibabel 5.0.0, pydicom 2.3.0, SimpleITK 2.5.7, NumPy 1.23.2, Python
# 3.11): the origin is not negated, and is that of one slice before the first: a voxel at (5, -7, 11) mm
# comes back at (-5, 7, 7). Values are cast to 16 bits, of which the files declare 12: 5000 is read as 904
# by SimpleITK, and -100 as 3996.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet nii2dcm==0.1.6 numpy==1.23.2 nibabel==5.0.0 \
    pydicom==2.3.0 SimpleITK==2.5.7
"$folder/env/bin/python" -W ignore - "$folder" <<'PYTHON'
import os
import sys
from importlib.metadata import version

import nibabel
import nii2dcm.dcm
import numpy as np
import SimpleITK as sitk
from nii2dcm.run import run_nii2dcm

print("nii2dcm", version("nii2dcm"))
volume = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
volume[0, 1, 2], volume[0, 1, 3] = 5000, -100
affine = np.array([[2.0, 0, 0, -5], [0, 3, 0, 7], [0, 0, 4, 11], [0, 0, 0, 1]])
file, series = f"{sys.argv[1]}/image.nii", f"{sys.argv[1]}/series"
nibabel.save(nibabel.Nifti1Image(volume, affine), file)
os.mkdir(series)
run_nii2dcm(file, series, "MR")
reader = sitk.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(series))
image = reader.Execute()
values = sitk.GetArrayFromImage(image)
for voxel in ((0, 0, 0), (0, 0, 1), (3, 2, 5)):
    ((k, row, column),) = np.argwhere(values == volume[voxel])
    found = np.array(image.TransformIndexToPhysicalPoint((int(column), int(row), int(k))))
    right = (affine @ [*voxel, 1])[:3] * [-1, -1, 1]
    print(f"voxel {voxel} is at {found} mm instead of {right} mm")
    expected = np.array([-5 - 2 * voxel[0], 7 - 3 * voxel[1], 7 + 4 * voxel[2]])
    assert np.allclose(found, expected), "the behaviour has changed"
large = sorted(values[values > 120].tolist())
print("5000 and -100 are read as", large[0], "and", large[1])
assert large == [5000 % 4096, -100 % 4096], "the behaviour has changed"
PYTHON

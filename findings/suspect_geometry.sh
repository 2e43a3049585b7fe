#!/usr/bin/env bash
# suspect, volumes with a place in space. Guessed: resample with method="linear" interpolates, and
# load_dicom_volume reads places and values as pydicom and SimpleITK do.
# Seen on 29 November 2026 (suspect 0.6.2, SimpleITK 2.5.7, pydicom 3.0.2, NumPy 2.4.6, SciPy 1.17.1, Python
# 3.11): places are cast to integers before they are interpolated, so that a ramp moves by up to a voxel.
# The two numbers of PixelSpacing are swapped (DICOM has that between rows first), and RescaleSlope and
# RescaleIntercept are left out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 \
    pydicom==3.0.2 lmfit==1.3.4 Parsley==1.3 parse==1.22.4 PyWavelets==1.9.0 SimpleITK==2.5.7 \
    suspect==0.6.2
"$folder/env/bin/python" -W ignore - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import pydicom
import SimpleITK as sitk
import suspect
from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

print("suspect", version("suspect"))
ramp = suspect.base.ImageBase(np.tile(np.arange(9.0), (9, 9, 1)), np.eye(4))
for middle in (4.0, 4.25, 4.75):
    found = ramp.resample((1, 0, 0), (0, 1, 0), (1, 1, 3), (middle, 4, 4), method="linear")
    places = found.transform[0, 3] + np.arange(3)
    print(f"places {places}, values {np.asarray(found)}")
    assert np.allclose(found, np.floor(places)), "the behaviour has changed"

names, series = [], generate_uid()
for k in range(3):
    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.SOPClassUID, data.SOPInstanceUID, data.SeriesInstanceUID = (
        MRImageStorage,
        generate_uid(),
        series,
    )
    data.Modality, data.InstanceNumber = "MR", k + 1
    data.Rows, data.Columns, data.PixelSpacing = 4, 5, [2, 1.5]  # between rows, between columns
    data.ImageOrientationPatient, data.ImagePositionPatient = (
        [1, 0, 0, 0, 1, 0],
        [10, 20, 30 + 3 * k],
    )
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 16
    data.HighBit, data.PixelRepresentation = 15, 0
    data.RescaleSlope, data.RescaleIntercept = 0.5, -3
    data.PixelData = (np.arange(20, dtype=np.uint16) + 20 * k).tobytes()
    names.append(f"{sys.argv[1]}/{k}.dcm")
    data.save_as(names[-1], enforce_file_format=True)
volume = suspect.image.load_dicom_volume(names[0])
reader = sitk.ImageSeriesReader()
reader.SetFileNames(names)
image = reader.Execute()
column, row, k = 4, 2, 1
place = volume.to_scanner(column, row, k)
right = np.array(image.TransformIndexToPhysicalPoint((column, row, k)))
values = float(volume[k, row, column]), image.GetPixel(column, row, k)
print(f"column {column}, row {row}: suspect {place}, {values[0]}; SimpleITK {right}, {values[1]}")
assert np.allclose(right, [10 + 1.5 * column, 20 + 2 * row, 33]) and values[1] == 34 * 0.5 - 3
assert np.allclose(place, [10 + 2 * column, 20 + 1.5 * row, 33]), "the behaviour has changed"
assert values[0] == 34, "the behaviour has changed"
PYTHON

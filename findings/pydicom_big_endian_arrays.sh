#!/usr/bin/env bash
# pydicom, Dataset.set_pixel_data. Guessed: an array of uint16 is stored with its values, in whatever byte
# order the array has. Seen on 29 November 2026 (pydicom 3.0.2, NumPy 2.4.6, Python 3.11): the bytes of a
# big-endian array, as astropy and mrcfile return them, are stored as they lie under a little-endian
# transfer syntax, so that 1 is read back as 256. The documentation asks for "dtype uint8, uint16, int8 or
# int16".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet pydicom==3.0.2 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

print("pydicom", pydicom.__version__)
for kind, expected in (("<u2", [[0, 1], [2, 3]]), (">u2", [[0, 256], [512, 768]])):
    image = np.arange(4, dtype=kind).reshape(2, 2)
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.set_pixel_data(image, "MONOCHROME2", bits_stored=16)
    seen = data.pixel_array.tolist()
    print(kind, "values", image.tolist(), "are read as", seen)
    assert seen == expected, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# OpenCV, warpAffine and remap with INTER_LINEAR. Guessed: images in double precision are interpolated
# at least as finely as those in single precision.
# Seen on 29 November 2026 (opencv-python-headless 5.0.0.93, NumPy 2.4.6, CPU, Python 3.11): of float32
# images shifts are exact; of float64 and uint16 ones they are rounded to 1/32 of a pixel. A shift by
# 0.01 pixels moves a ramp of float32 by 0.01 and leaves that of float64 as it is, bit for bit.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 opencv-python-headless==5.0.0.93
"$folder/env/bin/python" - <<'PYTHON'
import cv2
import numpy as np

seen = {}
columns, rows = np.meshgrid(np.arange(9, dtype=np.float32), np.arange(5, dtype=np.float32))
for shift in (0.01, 0.26):
    matrix = np.array([[1.0, 0, shift], [0, 1, 0]])
    for dtype in ("float32", "float64"):
        ramp = np.tile(np.arange(9), (5, 1)).astype(dtype)
        moved = cv2.warpAffine(ramp, matrix, (9, 5), flags=cv2.INTER_LINEAR)
        mapped = cv2.remap(ramp, columns - np.float32(shift), rows, cv2.INTER_LINEAR)
        seen[shift, dtype] = [round(float(4 - each[2, 4]), 5) for each in (moved, mapped)]
print("OpenCV", cv2.__version__, "shifts of a ramp by warpAffine and remap:", seen)
for shift, rounded in ((0.01, 0), (0.26, 0.25)):
    assert np.allclose(seen[shift, "float32"], shift, atol=1e-4), "the behaviour has changed"
    assert seen[shift, "float64"] == [rounded, rounded], "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# MRpro, data.Rotation, which its documentation describes as SciPy's for torch. Guessed: 90 degrees about z
# take x to y, as in SciPy. Seen on 29 November 2026 (mrpro 0.261015, torch 2.13.0, SciPy 1.17.1, Python
# 3.11): to -y, and so it is about x and about y: angles, rotation vectors and quaternions have SciPy's
# numbers, but vectors are in the order z, y, x, in which the same matrix turns the other way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 \
    mrpro==0.261015
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch

# torchvision's wheel for other devices registers these; here only their names are needed.
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from mrpro.data import Rotation, SpatialDimension
from scipy.spatial.transform import Rotation as RotationOfSciPy

print("mrpro", version("mrpro"))
vector = np.array([0.3, -0.5, 0.8])  # x, y, z
for axis in "xyz":
    turned = Rotation.from_euler(axis, 90, degrees=True)(SpatialDimension(*vector[::-1].tolist()))
    found = np.array([float(turned.x), float(turned.y), float(turned.z)])
    scipys = [RotationOfSciPy.from_euler(axis, s * 90, degrees=True).apply(vector) for s in (1, -1)]
    # Rodrigues' formula for 90 degrees, written out
    e = np.eye(3)["xyz".index(axis)]
    right_hand = np.cross(e, vector) + e * (e @ vector)
    print(f"90 degrees about {axis}, of {vector}: {found.round(3)}, SciPy {scipys[0].round(3)}")
    assert np.allclose(scipys[0], right_hand), "the behaviour has changed"
    assert np.allclose(found, scipys[1], atol=1e-6), "the behaviour has changed"
PYTHON

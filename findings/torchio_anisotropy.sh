#!/usr/bin/env bash
# TorchIO, RandomAnisotropy, which makes voxels coarser along an axis and interpolates back. Guessed: the
# image is blurred and stays in its place, as it must with labels, which stay as they are by default.
# Seen on 29 November 2026 (TorchIO 1.2.1, torch 2.13.0, NumPy 2.4.6, Python 3.11): so it is for factors
# of 3 and 5. For 2 and 4 the image moves by half a voxel: the nearest neighbour of the middle between
# two voxels is always the same one of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 torchio==1.2.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
import torchio

print("TorchIO", version("torchio"))
n = 60
row = torch.arange(n, dtype=torch.float32)
blob = torch.exp(-(((row - 30) / 5) ** 2))
inside = slice(10, -10)
for factor, expected in ((2, -0.5), (3, 0), (4, -0.5), (5, 0)):
    coarser = torchio.RandomAnisotropy(axes=(0,), downsampling=(factor, factor))
    seen = []
    for line in (row, blob):
        image = torchio.ScalarImage(tensor=line[None, :, None, None].expand(1, n, 9, 9).clone())
        seen.append(coarser(image).data[0, :, 4, 4])
    # a ramp that moves by s is row - s, and linear interpolation keeps it
    ramp = float((row - seen[0])[inside].mean())
    middle = float((row * seen[1]).sum() / seen[1].sum()) - 30
    print(
        f"factor {factor}: a ramp moves by {ramp:.3f} voxels, the middle of a blob by {middle:.3f}"
    )
    assert np.allclose([ramp, middle], expected, atol=2e-3), "the behaviour has changed"
PYTHON

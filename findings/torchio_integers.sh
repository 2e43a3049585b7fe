#!/usr/bin/env bash
# TorchIO, Blur and Resample of an image of integers, as CT scans are. Guessed: results are floating-point
# numbers, as those of Affine, or are rounded.
# Seen on 29 November 2026 (TorchIO 1.2.1, torch 2.13.0, NumPy 2.4.6, Python 3.11): they are cut off after
# the decimal point, in Blur along each axis anew: of int16 numbers from 0 to 19, whose mean is 9.5, the
# mean falls by 0.49 in Resample and by 1.5 in Blur.
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
numbers = torch.from_numpy(np.random.default_rng(0).integers(0, 20, (1, 20, 20, 20)))
affine = np.diag([2.0, 2, 2, 1])
shift = torchio.Affine((1, 1, 1), (0, 0, 0), (0.5, 0, 0), image_interpolation="linear")
transforms = {"Affine": shift, "Resample": torchio.Resample(1), "Blur": torchio.Blur(1)}
seen = {}
for name, transform in transforms.items():
    exact, found = (
        transform(torchio.ScalarImage(tensor=numbers.to(dtype), affine=affine)).data
        for dtype in (torch.float64, torch.int16)
    )
    difference = found.double() - exact
    seen[name] = difference.mean().item()
    print(f"{name}: {found.dtype}, mean {exact.mean():.2f} becomes {found.double().mean():.2f}")
    if name == "Affine":
        assert found.dtype == torch.float32 and difference.abs().max() < 1e-4
    else:
        assert found.dtype == torch.int16 and difference.max() < 1e-4, "the behaviour has changed"
assert np.allclose([seen["Resample"], seen["Blur"]], [-0.49, -1.49], atol=0.02), (
    "the behaviour has changed"
)
PYTHON

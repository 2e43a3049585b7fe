#!/usr/bin/env bash
# torch-interpol, grid_pull with interpolation="nearest". Guessed: values of the image, as with "linear".
# Seen on 29 November 2026 (torch-interpol 0.3.0, torch 2.13.0, NumPy 2.4.6, Python 3.11): so it is in one
# and three dimensions. In two, the result does not have the values of the image: it is True at places
# inside of it and False outside, unless extrapolate=True.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 torch-interpol==0.3.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import interpol
import torch

print("torch-interpol", version("torch-interpol"), "torch", torch.__version__)
for sizes in ((6,), (4, 6), (3, 4, 5)):
    labels = torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(1, 1, *sizes)
    places = interpol.identity_grid(sizes)[None]  # each voxel at its own place
    for name in ("linear", "nearest"):
        for extrapolate in (False, True):
            found = interpol.grid_pull(labels, places, name, extrapolate=extrapolate)
            values = found.float().unique().numel()
            print(sizes, name, f"extrapolate={extrapolate}:", found.dtype, values, "values")
            if len(sizes) == 2 and name == "nearest" and not extrapolate:
                assert found.dtype == torch.bool, "the behaviour has changed"
                assert found.all(), "the behaviour has changed"
                outside = interpol.grid_pull(labels, places + 10, name, extrapolate=False)
                assert not outside.any(), "the behaviour has changed"
            else:
                assert torch.allclose(found, labels, atol=1e-5), "the behaviour has changed"
PYTHON

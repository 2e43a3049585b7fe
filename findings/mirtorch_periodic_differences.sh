#!/usr/bin/env bash
# MIRTorch, Diff1d. Guessed: the mode changes what happens at the border only.
# Seen on 29 November 2026 (mirtorch 0.4.0, torch 2.13.0, Python 3.11): "reflexive" has x[n + 1] - x[n],
# and "periodic" has x[n - 1] - x[n], the opposite sign also away from the border: 1, 2, 4, 8 gives 1, 2, 4
# and 7, -1, -2, -4. Diffnd is always periodic. The adjoints are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 mirtorch==0.4.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from mirtorch.linear import Diff1d

print("mirtorch", version("mirtorch"))
x = torch.tensor([1.0, 2, 4, 8], dtype=torch.float64)
expected = {"reflexive": [1.0, 2, 4], "periodic": [7.0, -1, -2, -4]}
for mode, right in expected.items():
    found = (Diff1d([4], 0, mode) * x).tolist()
    print(mode, found)
    assert found == right, "the behaviour has changed"
PYTHON

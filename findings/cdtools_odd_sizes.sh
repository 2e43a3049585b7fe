#!/usr/bin/env bash
# cdtools, fourier_upsample (ptychography on a finer grid). Guessed: a constant image stays constant for
# any size. Seen on 29 November 2026 (cdtools-py 0.3.2, torch 2.13.0, CPU, Python 3.11): for even sizes
# it does. For odd ones, frequency 0 lands at n - 1 instead of n, and the image is multiplied by
# exp(-2 pi i k / (2 n)) along both axes: of ones of 9 x 9, pixel 3 has the phase -60 degrees.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 cdtools-py==0.3.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from cdtools.tools.image_processing import fourier_upsample

print("cdtools-py", version("cdtools-py"))
for n in (8, 9):
    found = fourier_upsample(torch.ones(n, n, dtype=torch.complex128), 2, preserve_mean=True)
    ramp = torch.exp(-2j * torch.pi * torch.arange(2 * n, dtype=torch.float64) / (2 * n))
    expected = torch.outer(ramp, ramp) if n % 2 else torch.ones(2 * n, 2 * n, dtype=torch.complex128)
    print(f"ones of {n} x {n} become", [f"{complex(z):.2f}" for z in found[0, :4]])
    assert torch.allclose(found, expected, atol=1e-6), "the behaviour has changed"
PYTHON

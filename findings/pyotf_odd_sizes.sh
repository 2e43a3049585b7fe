#!/usr/bin/env bash
# pyOTF, HanserPSF and SheppardPSF (models of the point spread function of a microscope). Guessed: the
# middle is at n // 2 along each axis, so that both have one middle. Seen on 29 November 2026 (pyotf 0.0.3,
# NumPy 2.4.6, SciPy 1.17.1, Python 3.11): for even sizes it is. An odd number of slices has it at
# n // 2 + 1 in both models; an odd number of pixels has it at n // 2 in HanserPSF and at n // 2 + 1 in
# SheppardPSF. An image that is deconvolved with either moves by a pixel.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pyotf==0.0.3
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pyotf.otf import HanserPSF, SheppardPSF

print("pyotf", version("pyotf"))


def middle(line):
    """Return the index about which a line is its own mirror image."""
    gaps = {}
    for i in range(3, len(line) - 3):
        k = min(i, len(line) - 1 - i)
        around = line[i - k : i + k + 1]
        gaps[i] = abs(around - around[::-1]).max()
    found = min(gaps, key=gaps.get)
    assert gaps[found] < 1e-9 * line.max()
    return found


for model in (HanserPSF, SheppardPSF):
    for n, slices in ((32, 10), (33, 11)):
        psf = model(wl=520, na=0.85, ni=1.0, res=100, size=n, zres=200, zsize=slices).PSFi
        found = middle(psf.max((1, 2))), middle(psf.sum((0, 2))), middle(psf.sum((0, 1)))
        print(f"{model.__name__}, {psf.shape}: the middle is {found}, half of the size is {slices // 2}, {n // 2}")
        odd = n % 2
        across = n // 2 + (odd if model is SheppardPSF else 0)
        assert found == (slices // 2 + odd, across, across), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# cmrseq, mps_to_xyz(gradients, slice_normal, readout_direction), which "converts from MPS to scanner
# coordinates". Guessed: a gradient along the readout (1, 0, 0) becomes the direction of the readout, as with
# an OMatrix of the same two directions.
# Seen on 29 November 2026 (cmrseq 0.27.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): so it is for the default
# directions. For a readout at 30 degrees it points to -30 degrees: mps_to_xyz and xyz_to_mps are each
# other's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pint==0.25.3 \
    matplotlib==3.11.2 tqdm==4.70.1 sigpy==0.1.27 cmrseq==0.27.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import cmrseq
import numpy as np
from pint import Quantity

print("cmrseq", version("cmrseq"))
system = cmrseq.SystemSpec()
readout = np.array([[1.0, 0, 0]])
for degrees in (0, 30, 90):
    angle = np.deg2rad(degrees)
    direction = np.array([np.cos(angle), np.sin(angle), 0])
    normal = np.array([0.0, 0, 1])
    found = cmrseq.utils.mps_to_xyz(readout, normal, direction)[0]
    back = cmrseq.utils.xyz_to_mps(readout, normal, direction)[0]
    matrix = cmrseq.OMatrix(Quantity(0, "m"), normal.copy(), direction.copy(), system).tmatrix
    print(
        f"readout {direction.round(3)}: mps_to_xyz {found.round(3)}, OMatrix {matrix[:3, 0].round(3)}"
    )
    assert np.allclose(matrix[:3, 0], direction)
    assert np.allclose(found, direction * [1, -1, 1]), "the behaviour has changed"
    assert np.allclose(back, direction), "the behaviour has changed"
PYTHON

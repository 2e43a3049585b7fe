#!/usr/bin/env bash
# PyPulseq, rotate(gradient, angle=, axis=). Guessed: a rotation by the rule of the right hand about each
# axis, as in scipy.spatial.transform. Seen on 29 November 2026 (pypulseq 1.5.0.post1, NumPy 2.4.6, SciPy
# 1.17.1, Python 3.11): about x and z it is. About y it turns the other way: a gradient along x and 30
# degrees give x and z of 0.87 and +0.5, where the rotation has -0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pypulseq==1.5.0.post1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import pypulseq
from scipy.spatial.transform import Rotation

print("pypulseq", version("pypulseq"))
for axis in "xyz":
    right_hand = Rotation.from_euler(axis, 30, degrees=True).as_matrix()
    seen = np.eye(3)
    for column, channel in enumerate("xyz"):
        gradient = pypulseq.make_trapezoid(channel, area=100, duration=5e-3)
        seen[:, column] = 0
        for part in pypulseq.rotate(gradient, angle=np.pi / 6, axis=axis):
            seen["xyz".index(part.channel), column] += part.amplitude / gradient.amplitude
    expected = right_hand.T if axis == "y" else right_hand
    print("about", axis, seen.round(2).tolist(), "right hand:", right_hand.round(2).tolist())
    assert np.allclose(seen, expected), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# curvelets, UDCT: a tight frame by its documentation. Guessed: backward inverts forward for any size,
# or other sizes are refused.
# Seen on 29 November 2026 (curvelets 1.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): with three scales
# it does for sides that are multiples of 4. For others (31, 33, 34, 50) normal numbers come back with
# errors of 0.6 to 0.9, without a word, and the energy of the coefficients is 1.01 to 1.10 of theirs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 typing-extensions==4.16.0 \
    curvelets==1.2
"$folder/env/bin/python" -W error - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from curvelets.numpy import UDCT

seen = {}
for shape in ((32, 32), (36, 36), (48, 48), (31, 31), (33, 33), (34, 36), (50, 50)):
    x = np.random.default_rng(0).standard_normal(shape)
    transform = UDCT(shape=shape, num_scales=3, wedges_per_direction=3)
    coefficients = transform.forward(x)
    error = np.abs(transform.backward(coefficients) - x).max()
    energy = (np.abs(transform.vect(coefficients)) ** 2).sum() / (x**2).sum()
    seen[shape] = (float(error), float(energy))
for shape, (error, energy) in seen.items():
    print("curvelets", version("curvelets"), shape, f"error {error:.2g}, energy {energy:.4f}")
    if shape[0] % 4 == 0:
        assert error < 1e-13 and abs(energy - 1) < 1e-13, "the behaviour has changed"
    else:
        assert error > 0.3, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# pyrtools, corrDn and upConv: the documentation of each calls the other the transpose, and pyramids are
# made of them. Guessed: it is, for each edge_type. Seen on 29 November 2026 (pyrtools 1.1.1, NumPy 2.4.6,
# SciPy 1.17.1, Python 3.11): for "circular", "zero" and "dont-compute". For the default, "reflect1", and
# for "reflect2", "repeat" and "extend", inner products of random 9 x 9 images with a kernel of 5 x 5 and
# steps of 2 differ by up to 30 to 66 % of the norms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pyrtools==1.1.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pyrtools import corrDn, upConv

print("pyrtools", version("pyrtools"))
for edge in ("circular", "zero", "dont-compute", "reflect1", "reflect2", "repeat", "extend"):
    random, gaps = np.random.default_rng(0), []
    for _ in range(20):
        kernel, x, y = (random.standard_normal((n, n)) for n in (5, 9, 5))
        Ax, Ay = corrDn(x, kernel, edge, (2, 2)), upConv(y, kernel, edge, (2, 2), stop=(9, 9))
        gap = abs((Ax * y).sum() - (x * Ay).sum())
        gaps.append(float(gap / np.linalg.norm(Ax) / np.linalg.norm(y)))
    print(f"{edge:12} {max(gaps):.1e}")
    is_transpose = edge in ("circular", "zero", "dont-compute")
    assert max(gaps) < 1e-12 if is_transpose else max(gaps) > 0.1, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# CUQIpy, FirstOrderFiniteDifference with bc_type="periodic" (the priors GMRF, LMRF and CMRF use it).
# Guessed: n differences of n points on a circle.
# Seen on 29 November 2026 (CUQIpy 1.4.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): n + 1 rows, of which
# the first and the last are the same: the jump from the last point to the first counts twice.
# [0, 0, 0, 1] has a total variation of 3 instead of 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 cuqipy==1.4.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from cuqi.operator import FirstOrderFiniteDifference

D = FirstOrderFiniteDifference(4, bc_type="periodic").get_matrix().toarray()
variation = np.abs(D @ [0, 0, 0, 1]).sum()
print("cuqipy", version("cuqipy"), D.tolist(), variation)
assert D.shape == (5, 4) and (D[0] == D[-1]).all() and variation == 3, "the behaviour has changed"
PYTHON

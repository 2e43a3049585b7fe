#!/usr/bin/env bash
# scipy.sparse.linalg.minres, the unit of the right-hand side. Guessed: with `rtol` as the only
# tolerance, minres(A, c * b) is c * minres(A, b), as cg(A, c * b) is. Seen on 29 November 2026
# (SciPy 1.17.1, NumPy 2.4.6, Python 3.11): the larger b is against A, the earlier it stops. A has
# the eigenvalues 1 to 10; for rtol=1e-8 the residual is 6e-8 |b| if |b| is 7, 2e-4 |b| if it is
# 7e4 and 0.43 |b| if it is 7e8, after 24, 13 and 1 steps, and info is 0 in each case. Its estimate
# of |A|, by which the residual is divided, begins with |b|.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import scipy
from scipy.sparse.linalg import cg, minres

A, ones = np.diag(np.linspace(1, 10, 50)), np.ones(50)
residuals = {cg: [], minres: []}
for scale in (1.0, 1e4, 1e8):
    b = scale * ones
    for solve, found in residuals.items():
        x, info = solve(A, b, rtol=1e-8)
        assert info == 0
        found.append(float(np.linalg.norm(A @ x - b) / np.linalg.norm(b)))
for solve, found in residuals.items():
    print("SciPy", scipy.__version__, solve.__name__, [f"{each:.2g}" for each in found])
first, second, third = residuals[minres]
assert first < 1e-7 and second > 1e-4 and third > 0.4, "the behaviour has changed"
assert max(residuals[cg]) <= 1e-8
PYTHON

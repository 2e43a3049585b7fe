#!/usr/bin/env bash
# SciPy's minres with a complex Hermitian matrix. Guessed: it solves the system, or it refuses complex
# matrices. Seen on 29 November 2026 (SciPy 1.17.1, NumPy 2.4.6, CPU, Python 3.11): its inner products
# lack a conjugate. For y = (1, i), whose y.y is 0, it returns 0 and says that it has converged; cg,
# gmres and qmr return the solution.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
from scipy.sparse.linalg import cg, gmres, minres, qmr

A, y = np.array([[2, 1j], [-1j, 3]]), np.array([1, 1j])
expected = np.linalg.solve(A, y)
for solve in (cg, gmres, qmr):
    x, info = solve(A, y)
    assert info == 0 and np.allclose(x, expected)
x, info = minres(A, y)
print(f"minres returns {x} and {info}; the solution is {expected}")
assert info == 0 and not x.any(), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# SigPy, ArrayToBlocks and BlocksToArray for blocks that overlap. Guessed: A.N is A.H * A, as for each of
# the other operators, so that LinearLeastSquares, which uses A.N, finds the array from its blocks.
# Seen on 29 November 2026 (sigpy 0.1.27, NumPy 2.4.6, Python 3.11): A.N is the identity, and A.H * A
# counts the blocks of each entry, up to 9 of 3 x 3. The solution for blocks without noise is up to 9
# times the array; with A.H * A written out, conjugate gradients find it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 sigpy==0.1.27
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import sigpy

print("sigpy", version("sigpy"))
x = np.random.default_rng(0).standard_normal((8, 8)) + 5
A = sigpy.linop.ArrayToBlocks(x.shape, (3, 3), (1, 1))
counts = np.zeros(x.shape)
for i in range(6):
    for j in range(6):
        counts[i : i + 3, j : j + 3] += 1
assert np.allclose(A.H(A(x)), counts * x)
blocks = A(x)
assert np.isclose(np.vdot(blocks, blocks), np.vdot(x, A.H(blocks)))  # A.H is the adjoint
norms = [np.linalg.norm(N(x) - counts * x) / np.linalg.norm(counts * x) for N in (A.N, A.H * A)]
print(f"A.N is off by {norms[0]:.2f} of the dense matrix, A.H * A by {norms[1]:.2g}")
found = sigpy.app.LinearLeastSquares(A, blocks, max_iter=100, show_pbar=False).run()
print(f"LinearLeastSquares: {(found / x).min():.2f} to {(found / x).max():.2f} times the array")
right = np.zeros_like(x)
sigpy.app.App(
    sigpy.alg.ConjugateGradient(A.H * A, A.H(blocks), right, max_iter=100), show_pbar=False
).run()
print(f"conjugate gradients with A.H * A: off by {abs(right - x).max():.2g}")
assert norms[0] > 0.5 and norms[1] < 1e-12 and np.allclose(A.N(x), x), "the behaviour has changed"
assert np.allclose(found, counts * x, rtol=1e-3), "the behaviour has changed"
assert np.allclose(right, x), "the behaviour has changed"
other = A.H  # BlocksToArray
assert np.allclose(other.N(blocks), blocks) and not np.allclose(A(A.H(blocks)), blocks), (
    "the behaviour has changed"
)
PYTHON

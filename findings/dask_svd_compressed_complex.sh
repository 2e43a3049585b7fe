#!/usr/bin/env bash
# Dask, dask.array.linalg.svd_compressed, the randomised SVD of large matrices. Guessed: it takes complex
# matrices, as "svd" of the same module does, or refuses them. Seen on 29 November 2026 (dask 2026.8.0,
# NumPy 2.4.6, Python 3.11): of a complex matrix of rank 3 the largest of three singular values is 0.6 to
# 0.8 of the right one, and u s v is off by about the largest entry, with power iterations or without.
# Real matrices are right to rounding. (It multiplies by the transpose, without the conjugate.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet "dask[array]==2026.8.0" numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import dask.array as da
import numpy as np

print("dask", version("dask"), "numpy", version("numpy"))
random = np.random.default_rng(0)


def error(imaginary, svd):
    """Return the error of a matrix of rank 3, put together again, and its largest singular value."""
    left, right = (
        random.standard_normal(shape) + imaginary * random.standard_normal(shape)
        for shape in ((60, 3), (3, 40))
    )
    matrix = left @ right
    u, s, v = (each.compute() for each in svd(da.from_array(matrix, chunks=(20, 40))))
    largest = np.linalg.svd(matrix, compute_uv=False)[0]
    return float(np.abs(u * s @ v - matrix).max() / np.abs(matrix).max()), float(s[0] / largest)


for n_power_iter in (0, 1, 2):
    options = {"k": 3, "n_power_iter": n_power_iter, "seed": 1}
    real, complex_ = (
        error(imaginary, lambda a: da.linalg.svd_compressed(a, **options)) for imaginary in (0, 1j)
    )
    print(f"{n_power_iter} power iterations: real {real}, complex {complex_}")
    assert real[0] < 1e-10, "the behaviour has changed"
    assert complex_[0] > 0.2 and complex_[1] < 0.95, "the behaviour has changed"
exact = error(1j, da.linalg.svd)
print("svd, complex:", exact)
assert exact[0] < 1e-10, "the behaviour has changed"
PYTHON

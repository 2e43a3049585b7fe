#!/usr/bin/env bash
# finufft, single precision, three dimensions, one thread, eps=1e-2. Guessed: each entry is within
# eps of the largest, and type 1 is the adjoint of type 2 to rounding, because both have one eps.
# Seen on 28 November 2026 (finufft 2.5.1, NumPy 2.4.6, CPU, Python 3.11): the inner products of the
# pair differ by 1e-5 or more; with upsampfac=2 in both directions by less than 1e-6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet finufft==2.5.1 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/env/bin/python" - <<'PYTHON'
import finufft
import numpy as np

rng = np.random.default_rng(0)
n, m = 32, 20_000
points = [rng.uniform(-np.pi, np.pi, m).astype(np.float32) for _ in range(3)]
x = (rng.standard_normal((n, n, n)) + 1j * rng.standard_normal((n, n, n))).astype(np.complex64)
y = (rng.standard_normal(m) + 1j * rng.standard_normal(m)).astype(np.complex64)


def gap(**options):
    """Return |<A x, y> - <x, A^H y>| over |A x| |y|."""
    forward = finufft.nufft3d2(*points, x, eps=1e-2, isign=-1, nthreads=1, **options)
    back = finufft.nufft3d1(*points, y, (n, n, n), eps=1e-2, isign=1, nthreads=1, **options)
    there = np.vdot(forward.astype(complex), y.astype(complex))
    here = np.vdot(x.astype(complex), back.astype(complex))
    return abs(there - here) / (np.linalg.norm(forward) * np.linalg.norm(y))


by_default, with_one_factor = gap(), gap(upsampfac=2.0)
print(f"finufft {finufft.__version__}: {by_default:.1e} by default, {with_one_factor:.1e} with 2.0")
assert by_default > 1e-5 and with_one_factor < 1e-6, "the behaviour has changed"
PYTHON

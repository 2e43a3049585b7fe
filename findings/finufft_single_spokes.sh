#!/usr/bin/env bash
# finufft, single precision, one thread, eps=1e-5, type 1. Guessed: the result errs by about eps
# for any points, with rounding that grows with the number of modes.
# Seen on 29 November 2026 (finufft 2.5.1, NumPy 2.4.6, CPU, Python 3.11): it also grows with the
# number of points in one place, whose values are added one by one. 4,000 spokes through the centre
# err by 2e-3, with spread_max_sp_size=1024 by 2e-5, in the same time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet finufft==2.5.1 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/env/bin/python" - <<'PYTHON'
import finufft
import numpy as np

angle = np.arange(4000)[:, None] * np.pi * 0.618
radius = 0.999 * np.linspace(-np.pi, np.pi, 256, endpoint=False)
spokes = [(np.cos(angle) * radius).ravel(), (np.sin(angle) * radius).ravel()]
spokes = [axis.astype(np.float32) for axis in spokes]
decay = 1 / (0.01 + np.broadcast_to(np.abs(radius / np.pi) ** 1.5, (4000, 256)).ravel())
double = [axis.astype(float) for axis in spokes]
exact = finufft.nufft2d1(*double, decay.astype(complex), (128, 128), eps=1e-12, isign=1)


def error(**options):
    """Return the relative error in single precision."""
    options |= {"eps": 1e-5, "isign": 1, "nthreads": 1, "upsampfac": 1.25, "showwarn": 0}
    found = finufft.nufft2d1(*spokes, decay.astype(np.complex64), (128, 128), **options)
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


by_default, in_small_parts = error(), error(spread_max_sp_size=1024)
print(f"finufft {finufft.__version__}: {by_default:.1e}, in small parts {in_small_parts:.1e}")
assert by_default > 5e-4 and in_small_parts < 5e-5, "the behaviour has changed"
PYTHON

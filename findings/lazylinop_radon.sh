#!/usr/bin/env bash
# lazylinop, radon. Guessed: projections are sums along rays about one middle, for any size, as those of
# scikit-image, up to interpolation. Seen on 30 November 2026 (lazylinop 1.24.28, NumPy 2.4.6, SciPy 1.17.1,
# Python 3.11): they are the sums divided by sqrt(P), with P the next power of two: from 32 to 33 pixels all
# values fall by sqrt(2). Even sizes have one middle; of odd sizes the projection at 90 degrees is two pixels
# further than the one at 0 degrees says. The adjoint is exact, so a dot-product test does not tell.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 lazylinop==1.24.28
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from lazylinop.signal2d import colvec, radon, uncolvec

print("lazylinop", version("lazylinop"))
x0, y0, width = 3.0, -2.0, 2.0  # pixels; angles of 0 and 90 degrees need no interpolation
for n, padded, moved in ((32, 32, 0), (64, 64, 0), (31, 32, 2), (33, 64, 2)):
    s = np.arange(n) - n // 2
    image = np.exp(-((s - x0) ** 2 + (s[:, None] - y0) ** 2) / (2 * width**2))
    operator = radon((n, n), np.array([0.0, 90.0]))
    found = uncolvec(operator @ colvec(image), (n, 2))
    scale = found.sum(axis=0) / image.sum()
    middle = (found * s[:, None]).sum(axis=0) / found.sum(axis=0)
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal(n * n), draw.standard_normal(2 * n)
    gap = abs((operator @ x) @ y - x @ (operator.H @ y))
    print(
        f"{n} pixels: {scale[0]:.4f} and {scale[1]:.4f} of the sums; middles at 0 and 90 degrees "
        f"{middle[0]:.2f} and {middle[1]:.2f}, expected {x0:.2f} and {-y0:.2f}; adjoint off by {gap:.0e}"
    )
    assert np.allclose(scale, padded**-0.5, rtol=1e-3), "the behaviour has changed"
    assert np.allclose(middle, (x0, -y0 + moved), atol=0.02), "the behaviour has changed"
    assert gap < 1e-10, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# prtools, dft2 and idft2. Guessed: idft2 of dft2 is the image; with unitary=True, the default, both keep
# energy, as their documentation says. Seen on 30 November 2026 (prtools 2.0.2, NumPy 2.4.6, SciPy 1.17.1,
# Python 3.11): dft2 is unitary. idft2 with unitary=True is divided by the number of pixels besides:
# idft2(dft2(x)) is x / 4096 for 64 by 64 pixels. With unitary=False for both it is x. Also guessed: fftconv
# with a kernel whose middle is at n // 2, and fftshift_kernel=True, leaves a point in its place. It does for
# even sizes; odd ones move by a pixel along each axis.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 prtools==2.0.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import prtools

print("prtools", version("prtools"))
for n in (8, 9, 64):
    x = np.random.default_rng(0).standard_normal((n, n))
    exact = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x), norm="ortho"))
    y = prtools.dft2(x, 1 / n)
    gap = abs(y - exact).max()
    back = prtools.idft2(y, 1 / n)
    plain = prtools.idft2(prtools.dft2(x, 1 / n, unitary=False), 1 / n, unitary=False)
    factor = np.vdot(x, back).real / np.vdot(x, x)
    energy = np.linalg.norm(back) / np.linalg.norm(y)
    print(
        f"{n} by {n}: dft2 is off the unitary one by {gap:.0e}; idft2(dft2(x)) is {factor:.6f} x, 1 / n^2 is "
        f"{1 / n**2:.6f}; idft2 keeps {energy:.6f} of the norm; unitary=False: off by {abs(plain - x).max():.0e}"
    )
    assert gap < 1e-11 and abs(plain - x).max() < 1e-11, "the behaviour has changed"
    assert np.allclose(back, x / n**2, rtol=1e-9, atol=1e-12), "the behaviour has changed"

for n in (32, 33):
    s = np.arange(n) - n // 2
    kernel = np.exp(-(s**2 + s[:, None] ** 2) / 8)
    point = np.zeros((n, n))
    point[n // 2, n // 2] = 1
    blurred = prtools.fftconv(point, kernel / kernel.sum(), fft_kernel=True, fftshift_kernel=True)
    middle = (blurred.sum(1) @ s, blurred.sum(0) @ s)
    print(f"fftconv, {n} by {n}: a point in the middle comes out at {np.round(middle, 3)}")
    assert np.allclose(middle, -(n % 2), atol=1e-3), "the behaviour has changed"
PYTHON

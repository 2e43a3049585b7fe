#!/usr/bin/env bash
# prysm, transforms. Guessed: a modulation transfer function is 1 at frequency 0 for any size, iczt2 takes
# back czt2 as idft2 takes back dft2, and czt2 has the samples of dft2. Seen on 30 November 2026 (prysm
# 0.21.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): for odd sizes mtf_from_psf divides by the value beside
# frequency 0 and is above 1; iczt2 after czt2 returns the complex conjugate, and of real numbers iczt2 is
# the forward transform; an odd number of samples of an even size is a sample further along both axes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 prysm==0.21.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from prysm.fttools import czt, mdft
from prysm.otf import mtf_from_psf

print("prysm", version("prysm"))
for n, width in ((32, 2.0), (33, 2.0), (33, 4.0)):
    s = np.arange(n) - n // 2
    psf = np.exp(-(s**2 + s[:, None] ** 2) / (2 * width**2))
    top = mtf_from_psf(psf, 1.0).data.max()
    # the value beside 0: one frequency further along both axes
    beside = np.exp(-4 * (np.pi * width / n) ** 2) if n % 2 else 1.0
    print(f"MTF of a Gaussian of width {width}, {n} by {n} pixels: at most {top:.3f}; 1 / beside is {1 / beside:.3f}")
    assert np.isclose(top, 1 / beside, rtol=1e-3), "the behaviour has changed"

draw = np.random.default_rng(0)
for n in (32, 33):
    x = draw.standard_normal((n, n)) + 1j * draw.standard_normal((n, n))
    for name, forward, inverse, right in (
        ("dft2, idft2", mdft.dft2, mdft.idft2, x),
        ("czt2, iczt2", czt.czt2, czt.iczt2, x.conj()),
    ):
        back = inverse(forward(x, 1, n), 1, n)
        back = back * np.linalg.norm(x) / np.linalg.norm(back)
        error = np.linalg.norm(back - x) / np.linalg.norm(x)
        gap = np.linalg.norm(back - right) / np.linalg.norm(x)
        print(f"{name}, {n} by {n}: off x by {error:.1e}, off {'x' if right is x else 'its conjugate'} by {gap:.0e}")
        assert gap < 1e-12, "the behaviour has changed"
    real = x.real.copy()
    same = np.array_equal(czt.iczt2(real, 1, n), czt.czt2(real, 1, n))
    print(f"iczt2 of real numbers is czt2: {same}")
    assert same, "the behaviour has changed"

for n, samples, moved in ((32, 40, 0), (32, 41, 1), (33, 40, 0), (33, 41, 0)):
    largest = []
    for transform in (mdft.dft2, czt.czt2):
        y = abs(transform(np.ones((n, n)), 2, samples))  # frequency 0 has the largest value
        largest.append(tuple(int(i) - samples // 2 for i in np.unravel_index(y.argmax(), y.shape)))
    print(f"{samples} samples of {n}: frequency 0 of dft2 and czt2 is at samples // 2 + {largest[0]}, {largest[1]}")
    assert largest == [(0, 0), (moved, moved)], "the behaviour has changed"
PYTHON

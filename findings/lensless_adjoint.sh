#!/usr/bin/env bash
# LenslessPiCam, RealFFTConvolve2D: the camera's model in its reconstructions by gradients, FISTA and
# unrolled networks. Guessed: "deconvolve" is the adjoint of "convolve", and a point spread function that
# is one pixel in the middle leaves an image as it is, times a number, for any size.
# Seen on 29 November 2026 (lensless 1.0.7, torch 2.13.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): only if
# n and the padded size, the next fast length from 2 n - 1 on, are even. If the padded size is odd (15
# for n = 8, 25 for n = 13), inner products differ, by 9 % of the norms for n = 8. If only n is odd (9,
# padded to 18), images move by a pixel along both axes. The number is 1 / the padded size.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 lensless==1.0.7
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from lensless.recon.rfft_convolve import RealFFTConvolve2D
from scipy.fft import next_fast_len

print("lensless", version("lensless"))
for n in (8, 9, 12, 13):
    torch.manual_seed(0)
    psf = torch.rand(1, n, n, 1, dtype=torch.float64)
    camera = RealFFTConvolve2D(psf, dtype=torch.float64)
    padded = next_fast_len(2 * n - 1)
    x, y = torch.randn(2, 1, 1, n, n, 1, dtype=torch.float64)
    Ax, Ay = camera.convolve(x), camera.deconvolve(y)
    gap = float((Ax * y).sum() - (x * Ay).sum()) / float(Ax.norm() * y.norm())
    point, image = torch.zeros(2, 1, n, n, 1, dtype=torch.float64)
    point[0, n // 2, n // 2] = image[0, 3, 4] = 1
    seen = RealFFTConvolve2D(point, dtype=torch.float64).convolve(image)
    moved = tuple(b - a for a, b in zip((3, 4), divmod(int(seen.flatten().argmax()), n)))
    print(f"n = {n}, padded {padded}: gap {gap:.1e}, moved {moved}, largest {float(seen.max()):.4f}")
    assert abs(float(seen.max()) * padded - 1) < 1e-6, "the behaviour has changed"
    if padded % 2:
        assert abs(gap) > 1e-3, "the behaviour has changed"
    else:
        assert abs(gap) < 1e-12 and moved == (-(n % 2), -(n % 2)), "the behaviour has changed"
PYTHON

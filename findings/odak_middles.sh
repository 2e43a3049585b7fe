#!/usr/bin/env bash
# Odak, helpers for images. Guessed: convolve2d and correlation_2d have their middle at n // 2, crop_center
# has the size that was asked for, and blur_gaussian leaves a constant image as it is, away from the border.
# Seen on 29 November 2026 (odak 0.2.7, torch 2.13.0, CPU, Python 3.11): convolve2d with a point at n // 2
# moves images of even size by one pixel along both axes; the largest value of correlation_2d(x, x) is
# at n // 2 + 1 for odd sizes; crop_center(x, [5, 5]) is 4 x 4; a blurred constant of 1 is 0.91 with the
# default kernel and 0.82 with 11 x 11 points and a sigma of 2, as points of the kernel are n / (n - 1)
# pixels apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"  # for odak.log
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 odak==0.2.7
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from odak.learn.tools import blur_gaussian, convolve2d, correlation_2d, crop_center

print("odak", version("odak"))
torch.manual_seed(0)
for n in (8, 9):
    x, point = torch.randn(n, n), torch.zeros(n, n)
    point[n // 2, n // 2] = 1
    found = convolve2d(x, point)
    moved = [s for s in (-1, 0, 1) if torch.allclose(found, x.roll((s, s), (0, 1)), atol=1e-5)]
    largest = divmod(int(correlation_2d(x, x).real.argmax()), n)
    print(f"n = {n}: convolve2d with a point moves by {moved}, correlation_2d(x, x) is largest at {largest}")
    assert moved == [1 - n % 2] and largest == (n // 2 + n % 2,) * 2, "the behaviour has changed"
cropped = tuple(crop_center(torch.zeros(10, 10), [5, 5]).shape)
blurred = blur_gaussian(torch.ones(64, 64))[32, 32], blur_gaussian(torch.ones(64, 64), [11, 11], [2, 2])[32, 32]
print("crop_center to 5 x 5:", cropped, "blurred constants of 1:", [round(float(b), 3) for b in blurred])
assert cropped == (4, 4), "the behaviour has changed"
assert abs(blurred[0] - 0.907) < 1e-3 and abs(blurred[1] - 0.823) < 1e-3, "the behaviour has changed"
PYTHON

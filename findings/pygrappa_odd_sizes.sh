#!/usr/bin/env bash
# pygrappa, cgsense, with odd sizes. Guessed: fully sampled k-space gives the image back for any size, to
# the tolerance of conjugate gradients, or other sizes are refused.
# Seen on 29 November 2026 (pygrappa 0.26.3, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): 32 x 32 pixels come
# back with an error of 2e-16. If one size is odd (33 x 32, 31 x 31), the result is more than 1e6 times
# the image, without a word: both transforms shift by the same half of the size, so that the second is
# not the inverse, and conjugate gradients diverge.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 \
    scikit-image==0.26.0 tqdm==4.70.1 pygrappa==0.26.3
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pygrappa import cgsense

print("pygrappa", version("pygrappa"))
axes = {"axes": (0, 1)}
for size in ((32, 32), (33, 32), (32, 33), (31, 31)):
    y, x = np.indices(size)
    image = (np.hypot(y - size[0] // 2, x - size[1] // 2) < 8).astype(complex)
    corners = ((0, 0), (1, 0), (0, 1), (1, 1))
    coils = np.stack(
        [np.exp(-((y / size[0] - a) ** 2) - (x / size[1] - b) ** 2) for a, b in corners], -1
    )
    coils = (coils / np.linalg.norm(coils, axis=-1, keepdims=True)).astype(complex)
    centred = np.fft.ifftshift(image[..., None] * coils, **axes)
    kspace = np.fft.fftshift(np.fft.fft2(centred, **axes), **axes)
    found = cgsense(kspace, coils, coil_axis=-1)
    error = np.linalg.norm(found - image) / np.linalg.norm(image)
    print(size, f"error {error:.1e}")
    is_even = size[0] % 2 == size[1] % 2 == 0
    assert error < 1e-12 if is_even else error > 1e6, "the behaviour has changed"
PYTHON

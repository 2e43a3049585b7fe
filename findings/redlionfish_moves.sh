#!/usr/bin/env bash
# RedLionfish, Richardson-Lucy deconvolution of volumes on CPUs. Guessed: a blob that was blurred by a
# symmetric kernel of odd size comes back in its place, in an array of the same size and with the same sum.
# Seen on 29 November 2026 (RedLionfish 0.10, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): along axes of even
# length it wanders by a pixel, half of which after the first iteration, which has 1.5 times the sum; a last
# axis of odd length has one entry more in the result. A kernel of even size moves nothing. The flipped kernel is
# off by one, as np.flip of a circular kernel takes index 0 to the last one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 RedLionfish==0.10
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import logging
from importlib.metadata import version

import numpy as np
from RedLionfishDeconv import doRLDeconvolutionFromNpArrays
from scipy.ndimage import convolve

logging.disable(logging.CRITICAL)
print("RedLionfish", version("RedLionfish"))
place = (-3, 2, 0)


def middle(volume):
    """Return the middle of a volume, from n // 2."""
    lines = [volume.sum(tuple({0, 1, 2} - {axis})) for axis in range(3)]
    return np.array([(line * (np.arange(len(line)) - n // 2)).sum() / line.sum() for line in lines])


def reference(data, kernel, n_iterations):
    """Return what Richardson and Lucy computed, for a symmetric kernel."""
    x = data.copy()
    for _ in range(n_iterations):
        ratio = data / np.maximum(convolve(x, kernel, mode="constant"), 1e-9)
        x = x * convolve(ratio, kernel, mode="constant")
    return x


m = np.arange(7) - 3
kernel = np.exp(-(m[:, None, None] ** 2 + m[:, None] ** 2 + m**2) / 4.0)
kernel /= kernel.sum()
for n in (24, 25):
    i = np.arange(n) - n // 2
    blob = np.exp(-((i[:, None, None] - place[0]) ** 2 + (i[:, None] - place[1]) ** 2 + (i - place[2]) ** 2) / 4)
    data = convolve(blob, kernel, mode="constant")
    for n_iterations in (1, 20):
        found = doRLDeconvolutionFromNpArrays(data, kernel, niter=n_iterations, method="cpu")
        moved, right = middle(found) - place, middle(reference(data, kernel, n_iterations)) - place
        ratio = found.sum() / data.sum()
        print(
            f"{n} pixels, {n_iterations} iterations: shape {found.shape}, moved by {moved.round(2)} "
            f"(reference {abs(right).round(2)}), sum {ratio:.2f}"
        )
        assert abs(right).max() < 0.01, "the behaviour has changed"
        assert found.shape == (n, n, n + n % 2), "the behaviour has changed"
        if n == 24:
            expected = 0.45 if n_iterations == 1 else 1
            assert np.allclose(moved, expected, atol=0.03), "the behaviour has changed"
            assert (ratio > 1.4) == (n_iterations == 1), "the behaviour has changed"
PYTHON

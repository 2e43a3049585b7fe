#!/usr/bin/env bash
# Second derivatives of Gaussian filters with a small sigma, SciPy and scikit-image. Guessed: the second
# derivative of a constant is 0 and that of x^2 is 2, for any sigma.
# Seen on 29 November 2026 (SciPy 1.17.1, scikit-image 0.26.0, NumPy 2.4.6, Python 3.11): the kernels are
# samples of derivatives of a Gaussian. For sigma = 0.5, gaussian_laplace and gaussian_filter(order=2)
# make -0.56 of a constant 1 (-10.2 for 0.3, -0.005 for 0.7), and hessian_matrix with its default,
# use_gaussian_derivatives=True, makes 0.16 of x^2 (1.44 for 0.7). For sigma = 1 they are right to 1 %.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 scikit-image==0.26.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.ndimage import gaussian_filter1d, gaussian_laplace
from skimage.feature import hessian_matrix

print("SciPy", version("scipy"), "scikit-image", version("scikit-image"))
ones = np.ones(41)
square = (np.arange(41.0) - 20) ** 2 * np.ones((41, 1))
seen = {}
for sigma in (0.3, 0.5, 0.7, 1.0):
    of_ones = gaussian_laplace(ones, sigma)[20]
    assert of_ones == gaussian_filter1d(ones, sigma, order=2)[20]
    of_square = [
        hessian_matrix(square, sigma=sigma, mode="nearest", use_gaussian_derivatives=use)[2][20, 20]
        for use in (True, False)
    ]
    seen[sigma] = [float(each) for each in (of_ones, *of_square)]
    print("sigma", sigma, "constant: %.4f, x^2: %.4f; with differences: %.4f" % tuple(seen[sigma]))
assert np.allclose([each[2] for each in seen.values()], 2)
assert np.allclose([seen[s][0] for s in seen], [-10.164, -0.5598, -0.00498, -7.2e-5], rtol=1e-2), (
    "the behaviour has changed"
)
assert np.allclose([seen[s][1] for s in (0.5, 0.7, 1.0)], [0.160, 1.441, 1.992], rtol=1e-2), (
    "the behaviour has changed"
)
PYTHON

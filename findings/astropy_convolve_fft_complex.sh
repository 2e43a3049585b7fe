#!/usr/bin/env bash
# Astropy, convolve_fft of complex arrays. Guessed: the result is complex, or complex input is refused;
# the function has an argument `complex_dtype`. Seen on 29 November 2026 (astropy 8.0.2, NumPy 2.4.6,
# Python 3.11): the imaginary part of the result is dropped without a warning, for complex images and for
# complex kernels. `convolve` drops it as well, with a ComplexWarning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet astropy==8.0.2 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import warnings

import astropy
import numpy as np
from astropy.convolution import convolve, convolve_fft

print("astropy", astropy.__version__)
image = np.zeros((5, 5), complex)
image[2, 2] = 1 + 2j
options = {"normalize_kernel": False}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    of_image = convolve_fft(image, np.ones((3, 3)), **options)
    of_kernel = convolve_fft(image.real, 1j * np.ones((3, 3)), **options)
print("1 + 2j becomes", of_image[2, 2].round(6), "and 1 times i becomes", of_kernel[2, 2].round(6))
print("with", len(told), "warnings")
assert np.isrealobj(of_image) and np.isclose(of_image[2, 2], 1), "the behaviour has changed"
assert np.allclose(of_kernel, 0) and not told, "the behaviour has changed"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    convolve(image, np.ones((3, 3)), **options)
assert [one.category for one in told] == [np.exceptions.ComplexWarning], "the behaviour has changed"
PYTHON

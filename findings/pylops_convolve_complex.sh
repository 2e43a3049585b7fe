#!/usr/bin/env bash
# PyLops, Convolve1D and the non-stationary convolutions with complex filters. Guessed: the adjoint
# has conjugated filters, as that of ConvolveND.
# Seen on 29 November 2026 (PyLops 2.8.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): it does not
# conjugate them. <A x, y> and <x, A^H y> differ by more than 10 % of |A x| |y|; ConvolveND is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pylops==2.8.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pylops
from pylops.signalprocessing import Convolve1D, ConvolveND, NonStationaryConvolve1D

rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def gap(A):
    x, y = numbers(A.shape[1]), numbers(A.shape[0])
    image = A @ x
    there, here = np.vdot(image, y), np.vdot(x, A.H @ y)
    return abs(there - here) / (np.linalg.norm(image) * np.linalg.norm(y))


filters = numbers(3, 5)
several = ConvolveND((8, 8), filters, offset=(1, 2), dtype="complex128")
one = Convolve1D(8, filters[0], offset=2, dtype="complex128")
varying = NonStationaryConvolve1D(8, filters, ih=(1, 3, 5), dtype="complex128")
gaps = [gap(A) for A in (several, one, varying)]
print(f"PyLops {pylops.__version__}: ConvolveND {gaps[0]:.1e}, Convolve1D {gaps[1]:.1e}, "
      f"NonStationaryConvolve1D {gaps[2]:.1e}")
assert gaps[0] < 1e-12 and min(gaps[1:]) > 0.02, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# pyDHM, propagation of holograms. Guessed: a converging beam comes to its focus at its distance with each
# of the three propagators. Seen on 29 November 2026 (pyDHM 1.0.5, NumPy 2.4.6, Python 3.11): phases are
# powers of 2 (numpy.exp2), not of e, and those of "angularSpectrum" are half as large, too: it propagates
# by ln(2) / 2 = 0.35 of the distance, so that a beam at an angle of 0.01 moves by 4.3 pixels instead of
# 12.5. "fresnel" has its focus at ln(2) of the distance. "bluestein" returns more than 1e20 times the energy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 pyDHM==1.0.5
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pyDHM.numericalPropagation import angularSpectrum, bluestein, fresnel

print("pyDHM", version("pyDHM"))
n, dx, wavelength, z, radius = 128, 4e-6, 5e-7, 5e-3, 60e-6
k = 2 * np.pi / wavelength
x = (np.arange(n) - n // 2) * dx
squares = x[:, None] ** 2 + x**2


def middle_and_width(field, pixel):
    """Return the middle and the width of a beam, in m."""
    line, place = (abs(field) ** 2).sum(0), (np.arange(n) - n // 2) * pixel
    middle = (line * place).sum() / line.sum()
    return middle, 2 * np.sqrt((line * (place - middle) ** 2).sum() / line.sum())


converging = np.exp(-squares / radius**2 - 1j * k * squares / (2 * z))
tilted = np.exp(-squares / radius**2 + 1j * k * 0.01 * x)
focus = wavelength * z / (np.pi * radius)
moved = middle_and_width(angularSpectrum(tilted, z, wavelength, dx, dx), dx)[0] / dx
print(f"a beam at 0.01 moves by {moved:.2f} pixels, closed form {0.01 * z / dx:.2f}")
assert abs(moved / (0.01 * z / dx) - np.log(2) / 2) < 0.01, "the behaviour has changed"
for factor in (1, 2 / np.log(2)):
    width = middle_and_width(angularSpectrum(converging, factor * z, wavelength, dx, dx), dx)[1]
    print(f"angularSpectrum, {factor:.3f} z: {1e6 * width:.1f} um, closed form at z {1e6 * focus:.1f} um")
    assert (abs(width / focus - 1) < 0.02) == (factor > 1), "the behaviour has changed"
for factor in (1, np.log(2)):
    pixel = wavelength * z * factor / (n * dx)
    width = middle_and_width(fresnel(converging, factor * z, wavelength, dx, dx), pixel)[1]
    right = focus * factor  # its focus, seen from factor z
    print(f"fresnel, {factor:.3f} z: {1e6 * width:.1f} um, of a focus there {1e6 * right:.1f} um")
    assert (abs(width / right - 1) < 0.02) == (factor < 1), "the behaviour has changed"
far = bluestein(converging, z, wavelength, dx, dx, dx / 2, dx / 2)
ratio = (abs(far) ** 2).sum() / 4 / (abs(converging) ** 2).sum()
print(f"bluestein: {ratio:.0e} of the energy")
assert ratio > 1e20, "the behaviour has changed"
PYTHON

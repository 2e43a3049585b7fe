#!/usr/bin/env bash
# Diffractio, CZT (propagation by the chirp z-transform). Guessed: a field has the place that its axes say,
# as with RS. Seen on 29 November 2026 (diffractio 1.0.0, NumPy 1.26.4, SciPy 1.15.3, Python 3.11): with RS
# it does. With CZT each field is one pixel of the output too far to the negative side of each axis, for
# even and odd sizes, with and without "xout", in one and in two dimensions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==1.26.4 scipy==1.15.3 diffractio==1.0.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from diffractio.scalar_fields_X import Scalar_field_X
from diffractio.scalar_fields_XY import Scalar_field_XY

print("diffractio", version("diffractio"))
wavelength, z, radius, pixel = 0.5, 5000.0, 60.0, 4.0  # micrometres
k = 2 * np.pi / wavelength
for n in (128, 129):
    x = (np.arange(n) - (n - 1) / 2) * pixel
    squares = x[:, None] ** 2 + x**2
    plane = Scalar_field_XY(x, x, wavelength)
    plane.u = np.exp(-squares / radius**2 - 1j * k * squares / (2 * z))  # comes to its focus at z
    line = Scalar_field_X(x, wavelength)
    line.u = np.exp(-(x**2) / radius**2 - 1j * k * x**2 / (2 * z))
    for name, out, field, moved in (
        ("RS, two dimensions", x, plane.RS(z=z, new_field=True, verbose=False), 0),
        ("CZT, two dimensions", x, plane.CZT(z=z), -1),
        ("CZT, half the pixel", x / 2, plane.CZT(z=z, xout=x / 2, yout=x / 2), -1),
        ("RS, one dimension", x, line.RS(z=z, new_field=True, verbose=False), 0),
        ("CZT, one dimension", x, line.CZT(z=z, xout=x), -1),
    ):
        intensity = abs(np.asarray(getattr(field, "u", field))) ** 2
        axes = (1, 0) if intensity.ndim == 2 else (None,)
        lines = [intensity if axis is None else intensity.sum(axis) for axis in axes]
        middle = [float((each * out).sum() / each.sum()) for each in lines]
        print(f"{name}, {n} pixels: at {np.round(middle, 2)} um; a pixel is {out[1] - out[0]} um")
        assert np.allclose(middle, moved * (out[1] - out[0]), atol=0.05), "the behaviour has changed"
PYTHON

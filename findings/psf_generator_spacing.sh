#!/usr/bin/env bash
# psf-generator (models of the point spread function of a microscope). Guessed: the pixels of its output are
# as large as pix_size says, planes are defocus_step apart, and a single plane is in focus. Seen on 29
# November 2026 (psf-generator 0.1.0, torch 2.13.0, SciPy 1.17.1, CPU, Python 3.11), for the Cartesian and
# the spherical propagator: n pixels are pix_size n / (n - 1) apart, 320 nm instead of 300 nm for 16; n planes
# are defocus_step n / (n - 1) apart, 25 % more for 5; a single plane is out of focus by half a step. Oracles:
# the Airy pattern, and the intensity along the axis of a small aperture.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 psf-generator==0.1.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from psf_generator import ScalarCartesianPropagator, ScalarSphericalPropagator
from scipy.optimize import minimize_scalar
from scipy.special import j1

print("psf-generator", version("psf-generator"))
aperture, wavelength, pixel, step = 0.2, 500.0, 300.0, 4000.0  # nm
shared = {"n_pix_pupil": 257, "wavelength": wavelength, "na": aperture, "n_i": 1.0, "n_i0": 1.0, "pix_size": pixel}


def airy(n, spacing):
    """Return the Airy pattern on n x n pixels, with its middle at (n - 1) / 2."""
    v = 2 * np.pi * aperture / wavelength * np.hypot(*(np.indices((n, n)) - (n - 1) / 2)) * spacing
    v[v == 0] = 1e-9
    pattern = (2 * j1(v) / v) ** 2
    return pattern / pattern.max()


def along_the_axis(z):
    """Return the intensity at z on the axis, 1 in focus."""
    return np.sinc(z / wavelength * (1 - np.sqrt(1 - aperture**2))) ** 2


for model in (ScalarCartesianPropagator, ScalarSphericalPropagator):
    name = model.__name__
    for n in (16, 17, 64):
        image = (abs(model(n_pix_psf=n, **shared).compute_focus_field()) ** 2).squeeze().numpy()
        image = image / image.max()
        fit = minimize_scalar(lambda s: ((airy(n, s) - image) ** 2).sum(), bounds=(200, 400), method="bounded")
        print(f"{name}, {n} pixels of {pixel} nm: {fit.x:.1f} nm, {pixel} n / (n - 1) is {pixel * n / (n - 1):.1f}")
        assert abs(fit.x - pixel * n / (n - 1)) < 1, "the behaviour has changed"
    line = {}
    for n in (1, 5):
        stack = model(n_pix_psf=17, n_defocus=n, defocus_step=step, **shared).compute_focus_field()
        line[n] = (abs(stack) ** 2).sum(1).numpy()[:, 8, 8]
    asked = along_the_axis((np.arange(5) - 2) * step)
    wider = along_the_axis((np.arange(5) - 2) * step * 5 / 4)
    found = line[5] / line[5].max()
    print(f"{name}, 5 planes: {found.round(3)}; as asked {asked.round(3)}, 5 / 4 apart {wider.round(3)}")
    assert abs(found - wider).max() < 0.01 < abs(found - asked).max(), "the behaviour has changed"
    single = float(line[1][0] / line[5].max())
    print(f"{name}, one plane: {single:.3f} of the peak; half a step away {along_the_axis(step / 2):.3f}")
    assert abs(single - along_the_axis(step / 2)) < 0.003, "the behaviour has changed"
PYTHON

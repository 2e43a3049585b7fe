#!/usr/bin/env bash
# symdwi, gpd_sphere_attenuation, signals of water in impermeable spheres. Guessed: Neuman's formula for spheres,
# and so exp(-q^2 R^2 / 5) for short pulses and long times, as displacements along one axis have a variance of
# 2 R^2 / 5 then.
# Seen on 30 November 2026 (symdwi 1.0.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): the exponent is 2.14 times as
# large, as that of a sphere with 1.46 times the radius: the formula is that of spheres, its roots are those of
# cylinders, 1.84, 5.33, 8.54 for 2.08, 5.94, 9.21.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 tqdm==4.70.1 \
    dipy==1.12.1 symdwi==1.0.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.optimize import brentq
from scipy.special import jnp_zeros, spherical_jn
from symdwi.gm_compartments import gpd_sphere_attenuation

print("symdwi", version("symdwi"))
radius, diffusivity = 6.0, 3.0  # um, um^2 / ms

# no flow through the wall: the derivative of the spherical Bessel function is 0 there
spheres = [
    brentq(lambda x: spherical_jn(1, x, derivative=True), k * np.pi - 2, k * np.pi)
    for k in range(1, 21)
]
assert np.allclose(spheres[:3], [2.0816, 5.9404, 9.2058], atol=1e-3)


def exponent(roots, big, small):
    """Return -log(S) / (q^2 R^2) of Neuman's formula for spheres; times in ms."""
    x = np.asarray(roots)
    rate = x**2 * diffusivity / radius**2
    terms = 2 * rate * small - 2 + 2 * np.exp(-rate * small) + 2 * np.exp(-rate * big)
    terms -= np.exp(-rate * (big - small)) + np.exp(-rate * (big + small))
    return 2 * np.sum(terms / (rate * small) ** 2 / (x**2 * (x**2 - 2)))


for big, small in ((200.0, 0.01), (22.0, 13.0)):  # the last ones are the defaults
    b = 1.0  # ms / um^2, 1000 s / mm^2
    q_squared = b / (big - small / 3)
    signal = gpd_sphere_attenuation(
        np.array([1000 * b]), big, small, diffusivity * 1e-3, radius
    )
    found = -np.log(signal[0]) / (q_squared * radius**2)
    right = exponent(spheres, big, small)
    cylinders = exponent(jnp_zeros(1, 20), big, small)
    print(
        f"times {big}, {small} ms: exponent {found:.4f} q^2 R^2, of a sphere {right:.4f},"
        f" with roots of cylinders {cylinders:.4f}; S = {signal[0]:.4f},"
        f" of a sphere {np.exp(-right * q_squared * radius**2):.4f}"
    )
    assert big < 100 or np.isclose(right, 1 / 5, rtol=0.01)
    assert np.isclose(found, cylinders, rtol=1e-3), "the behaviour has changed"
    assert found > 1.5 * right, "the behaviour has changed"
PYTHON

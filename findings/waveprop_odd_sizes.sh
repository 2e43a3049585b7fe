#!/usr/bin/env bash
# waveprop, free-space propagation. Guessed: a beam stays in the middle, whatever the size, and complex
# fields keep their phase. Seen on 29 November 2026 (waveprop 0.0.12, torch 2.13.0, NumPy 2.4.6, Python
# 3.11): even sizes do; from an odd size, "angular_spectrum_np" and "fresnel_conv" move beams by a pixel
# along both axes. With another pixel at the output (d2), the first moves them by one pixel for even and
# two for odd sizes. "fft_di" drops the imaginary part of the input, with no more than a ComplexWarning: a
# beam at an angle becomes two, and a converging beam has half of its energy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 matplotlib==3.10.8 \
    pyffs==2.2.3 opencv-python==5.0.0.93
"$folder/env/bin/python" -m pip install --quiet --no-deps waveprop==0.0.12
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib.metadata import version
from types import ModuleType

import numpy as np

# waveprop imports two functions of torchvision, which nothing here calls.
for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"):
    sys.modules[name] = ModuleType(name)
sys.modules[name].crop = sys.modules[name].resize = None

from waveprop.fresnel import fresnel_conv
from waveprop.rs import angular_spectrum_np, fft_di

print("waveprop", version("waveprop"))
dx, wavelength, z, radius = 4e-6, 5e-7, 5e-3, 60e-6
k = 2 * np.pi / wavelength


def grid(n):
    return (np.arange(n) - n // 2) * dx


def middle(field):
    """Return the middle of a beam along both axes, in pixels from n // 2."""
    intensity = abs(field) ** 2
    place = np.arange(len(field)) - len(field) // 2
    return [float((intensity.sum(axis) * place).sum() / intensity.sum()) for axis in (1, 0)]


for n in (128, 129):
    x = grid(n)
    squares = x[:, None] ** 2 + x**2
    beam = np.exp(-squares / radius**2 - 1j * k * squares / (2 * z))
    for name, found, moved in (
        ("angular_spectrum_np", angular_spectrum_np(beam, wavelength, dx, z)[0], n % 2),
        ("fresnel_conv", fresnel_conv(beam, wavelength, dx, z)[0], n % 2),
        ("angular_spectrum_np, d2", angular_spectrum_np(beam, wavelength, dx, z, d2=dx / 2)[0], 1 + n % 2),
    ):
        print(f"{name}, {n} pixels: moved by", np.round(middle(found), 2))
        assert np.allclose(middle(found), moved, atol=0.02), "the behaviour has changed"

x = grid(128)
squares = x[:, None] ** 2 + x**2
converging = np.exp(-squares / radius**2 - 1j * k * squares / (2 * z))
tilted = np.exp(-squares / radius**2 + 1j * k * 0.01 * x)
for name, beam, right in (("tilted", tilted, 12.5), ("converging", converging, 0.0)):
    exact = angular_spectrum_np(beam, wavelength, dx, z)[0]
    found = fft_di(beam, wavelength, dx, z)[0]
    of_real_part = fft_di(beam.real, wavelength, dx, z)[0]
    energy = (abs(found) ** 2).sum() / (abs(beam) ** 2).sum()
    print(f"fft_di, {name}: at {middle(found)[1]:.2f} pixels ({middle(exact)[1]:.2f}), {energy:.2f} of the energy")
    assert abs(middle(exact)[1] - right) < 0.05, "the behaviour has changed"
    assert abs(middle(found)[1]) < 0.05 and 0.4 < energy < 0.6, "the behaviour has changed"
    assert np.array_equal(found, of_real_part), "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# Odak, propagate_beam. Guessed: a beam that converges comes to its focus with each propagation type, and
# stays in the middle. Seen on 29 November 2026 (odak 0.2.7, torch 2.13.0, CPU, Python 3.11): "Transfer
# Function Fresnel" goes the other way than "Angular Spectrum" and "Bandlimited Angular Spectrum": a
# Gaussian beam with a radius of 60 um that converges at 5 mm has 13 um there with these (closed form:
# 13.3 um), and 122 um, as after a lens that diverges, with it. Frequencies are linspace(-1/2, 1/2, n) per
# pixel and leave out 0, so the middle of each beam moves by wavelength z / (2 n dx), here 0.6 pixels,
# and by half of that with zero padding.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"  # for odak.log
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 odak==0.2.7
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from odak.learn.wave import propagate_beam

print("odak", version("odak"))
n, dx, wavelength, z, radius = 128, 4e-6, 5e-7, 5e-3, 60e-6
k = 2 * torch.pi / wavelength
x = (torch.arange(n) - n // 2) * dx
squares = x[:, None] ** 2 + x**2
beam = torch.exp(-squares / radius**2 - 1j * k * squares / (2 * z))
focus = wavelength * z / (torch.pi * radius)
step = wavelength * z / (2 * n * dx**2)
print(f"closed form: {1e6 * focus:.1f} um; a frequency of half a step moves it by {step:.2f} pixels")
for name, sign in (
    ("Angular Spectrum", 1),
    ("Bandlimited Angular Spectrum", 1),
    ("Transfer Function Fresnel", -1),
):
    for padding in (False, True):
        options = {"zero_padding": [padding, False, padding]}
        field = propagate_beam(beam, k, z, dx, wavelength, name, **options)
        line = field.squeeze().abs().square().sum(0)
        middle = float((line * x).sum() / line.sum())
        found = 2 * float((line * (x - middle) ** 2).sum() / line.sum()) ** 0.5
        print(f"{name}, padding {padding}: {1e6 * found:.1f} um, moved by {middle / dx:.2f} pixels")
        right = focus if sign > 0 else 2 * radius
        assert abs(found / right - 1) < 0.05, "the behaviour has changed"
        moved = sign * step / (1 + padding)
        assert abs(middle / dx - moved) < 0.02, "the behaviour has changed"
PYTHON

#!/usr/bin/env bash
# wofryimpl (wave optics of OASYS). Guessed: a beam on a grid comes out in the middle with each Fresnel
# propagator. Seen on 29 November 2026 (wofryimpl 1.0.40, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): with
# FresnelZoomXY2D it does. The frequencies of Fresnel2D, linspace(-1, 1, n) shifted, are off by half a step
# for even sizes and by a step for odd ones, so that beams move by wavelength z / (2 (n - 1) dx^2) pixels or
# twice as much, here by 0.6 and 1.2. The first lines of its file say that shift_half_pixel=1, which repairs
# even sizes, is the default: it is False. FresnelConvolution2D moves beams on even sizes by a pixel.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 wofryimpl==1.0.40
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from wofry.propagator.wavefront2D.generic_wavefront import GenericWavefront2D
from wofryimpl.propagator.propagators2D.fresnel import Fresnel2D
from wofryimpl.propagator.propagators2D.fresnel_convolution import FresnelConvolution2D
from wofryimpl.propagator.propagators2D.fresnel_zoom_xy import FresnelZoomXY2D

print("wofryimpl", version("wofryimpl"))
dx, wavelength, z, radius = 4e-6, 5e-7, 5e-3, 60e-6


def middle(propagate, n, **options):
    """Return the middle of a Gaussian beam after z, in pixels, along both axes."""
    x = (np.arange(n) - n // 2) * dx
    field = np.exp(-(x[:, None] ** 2 + x**2) / radius**2) + 0j
    beam = GenericWavefront2D.initialize_wavefront_from_arrays(x, x.copy(), field, wavelength=wavelength)
    found = propagate(beam, z, **options)
    intensity = abs(found.get_complex_amplitude()) ** 2
    places = found.get_coordinate_x(), found.get_coordinate_y()
    return [
        float((intensity.sum(axis) * place).sum() / intensity.sum() / dx)
        for axis, place in zip((1, 0), places, strict=True)
    ]


for n in (128, 129):
    step = wavelength * z / (2 * (n - 1) * dx**2) * (1 + n % 2)
    for name, propagate, options, moved in (
        ("Fresnel2D", Fresnel2D.propagate_wavefront, {}, step),
        ("FresnelConvolution2D", FresnelConvolution2D.propagate_wavefront, {}, 1 - n % 2),
        ("FresnelZoomXY2D", FresnelZoomXY2D.propagate_wavefront, {}, 0),
        ("Fresnel2D, shift_half_pixel", Fresnel2D.propagate_wavefront, {"shift_half_pixel": True}, n % 2 * step / 2),
    ):
        found = middle(propagate, n, **options)
        print(f"{name}, {n} pixels: moved by", np.round(found, 2))
        assert np.allclose(found, moved, atol=0.1), "the behaviour has changed"
PYTHON

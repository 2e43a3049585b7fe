"""Signs and units of optics, k-space phantoms and grids, each guessed before the run."""

from typing import Any

import numpy as np
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "lightpipes",
    guess="`Tilt(tx, 0, field)` sends a beam to positive x, as phases are exp(+i k z)",
    here="a phase `exp(2j * pi * tx * x / wavelength)` as `Diagonal`: to positive x",
)
def lightpipes_tilt() -> str:
    import LightPipes

    size, n, wavelength = 20e-3, 128, 5e-7
    x = (np.arange(n) - n // 2) * size / n
    beam = LightPipes.GaussBeam(LightPipes.Begin(size, wavelength, n), 1.5e-3)

    def middle(field: Any) -> float:
        intensity = abs(field.field) ** 2
        return float((intensity.sum(0) * x).sum() / intensity.sum())

    shifted = LightPipes.GaussBeam(LightPipes.Begin(size, wavelength, n), 1.5e-3, x_shift=2e-3)
    tilted = LightPipes.Forvard(LightPipes.Tilt(1e-3, 0, beam), 2.0)
    lens = LightPipes.Lens(1.0, 0, 0, LightPipes.Begin(size, wavelength, n)).field[n // 2]
    assert abs(middle(shifted) - 2e-3) < 5e-5
    assert abs(middle(tilted) + 2e-3) < 5e-5, middle(tilted)
    assert np.allclose(lens, np.exp(-1j * np.pi / wavelength * x**2), atol=1e-4)
    return (
        "1e-3 moves a beam to x = -2 mm after 2 m; `x_shift` and the sign of `Lens` are as guessed"
    )


@row(
    SECTION,
    "poppy",
    guess="an optical path that grows along x moves the point spread function to positive x",
    here="`FFT(2, centered=True)` of `exp(2j * pi * opd / wavelength)`: to positive x",
)
def poppy_tilt() -> str:
    import logging

    import poppy

    logging.getLogger("poppy").setLevel(logging.ERROR)
    tilt = poppy.ZernikeWFE(radius=1.0, coefficients=[0, 2e-7])  # 2 nm per cm, along x
    wave = poppy.Wavefront(wavelength=1e-6, npix=32, diam=2.0)
    assert tilt.get_opd(wave)[16, 20] > tilt.get_opd(wave)[16, 16]
    assert wave.coordinates()[1][16, 20] > wave.coordinates()[1][16, 16]
    system = poppy.OpticalSystem(oversample=2)
    system.add_pupil(poppy.CircularAperture(radius=1.0))
    system.add_pupil(tilt)
    system.add_detector(pixelscale=0.02, fov_pixels=32)
    image = system.calc_psf(1e-6)[0].data
    place = np.array(np.unravel_index(image.argmax(), image.shape)) - 31.5
    assert np.allclose(place, (-0.5, -8.5)), place
    return "to negative x: the lens is a Fourier transform with a plus in its exponent"


@row(
    SECTION,
    "phantominator",
    guess="`kspace_shepp_logan(kx, ky)` takes cycles per field of view, the unit of BART's `traj`, "
    "as its documentation says",
    here="halve locations in cycles per field of view: `NUFFT(locs, ...)` has these",
)
def phantominator_unit() -> str:
    from phantominator import kspace_shepp_logan, shepp_logan

    n = 256
    image = shepp_logan(n)
    x = (np.arange(n) - (n - 1) / 2) * 2 / n  # the field of view is [-1, 1]
    kx, ky = np.array([0.0, 1, 2, 0, 1]), np.array([0.0, 0, 0, 1, 3])
    found = kspace_shepp_logan(kx, ky)
    errors = []
    for per_length in (1.0, 0.5):
        waves_x, waves_y = (np.exp(-2j * np.pi * per_length * k[:, None] * x) for k in (kx, ky))
        expected = np.einsum("yx,kx,ky->k", image, waves_x, waves_y) * (2 / n) ** 2
        errors.append(np.abs(found - expected).max())
    assert errors[0] < 0.006 < 0.1 < errors[1], errors
    return (
        "cycles per half of it: the phantom is the integral over [-1, 1] x [-1, 1] of "
        "exp(-2 pi i (kx x + ky y)), with x along the columns"
    )


@row(
    SECTION,
    "nifty8",
    guess="`FFTOperator(RGSpace(8), ...)` is numpy.fft.fft, and a smoothing of 1.5 is 1.5 pixels",
    here='`FFT(1, norm="forward")`, or `RGSpace(8, distances=1)` for `FFT(1, norm="backward")`',
)
def nifty_distances() -> str:
    import nifty8 as nifty

    values = np.random.default_rng(0).standard_normal(8) + 0j
    ratios = []
    for space in (nifty.RGSpace(8), nifty.RGSpace(8, distances=1.0)):
        transform = nifty.FFTOperator(space, space.get_default_codomain())
        found = transform(nifty.makeField(space, values)).val
        ratios.append((found / np.fft.fft(values)).real)
    assert np.allclose(ratios[0], 1 / 8) and np.allclose(ratios[1], 1), ratios
    point = nifty.makeField(nifty.RGSpace(8), np.eye(8)[0])
    smoothed = nifty.HarmonicSmoothingOperator(nifty.RGSpace(8), 1.5)(point).val
    assert np.allclose(smoothed, 1 / 8)
    return (
        "the pixels of `RGSpace(8)` are 1/8, and transforms are integrals: an eighth of "
        "numpy.fft.fft; a point that is smoothed by 1.5, which is 12 pixels, is 1/8 everywhere"
    )

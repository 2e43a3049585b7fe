"""Astronomy, optics, acoustics and emission tomography, each guessed before the run."""

import numpy as np
import torch
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "mpol",
    guess="a sky cube of N pixels has its middle at N // 2, as `GridCoords.l_centers` has",
    here="`sky.flip(-1)` has its middle at N // 2 along both axes, as a centred `FFT`",
)
def sky_middle() -> str:
    from mpol.coordinates import GridCoords
    from mpol.fourier import NuFFT
    from mpol.utils import sky_cube_to_packed_cube

    n, cell, u, v = 8, 0.1, np.array([100.0, -50, 200]), np.array([30.0, 60, -80])  # kilolambda
    sky = np.random.default_rng(0).standard_normal((n, n))
    transform = NuFFT(coords=GridCoords(cell_size=cell, npix=n), nchan=1, uu=u, vv=v)
    found = transform(sky_cube_to_packed_cube(torch.as_tensor(sky)[None])).numpy()[0]
    radians = cell * np.pi / 180 / 3600
    rows, columns = np.arange(n) - n // 2, n // 2 - 1 - np.arange(n)
    waves = [
        np.exp(-2e3j * np.pi * k[:, None] * at * radians) for k, at in ((v, rows), (u, columns))
    ]
    expected = cell**2 * np.einsum("kr,kc,rc->k", *waves, sky)
    assert np.allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    return (
        "row N // 2 and column N // 2 - 1, as columns run to the west; exp(-2 pi i (u l + v m)), "
        "kilolambda, times the area of a pixel in square arcseconds"
    )


@row(
    SECTION,
    "aotools",
    guess="`ft2` has its middle at N // 2 for any size, and `angularSpectrum` a plain phase",
    here="`FFT(2, centered=True)`: N // 2 for any size",
)
def odd_transforms() -> str:
    from aotools.fouriertransform import ft2
    from aotools.opticalpropagation import angularSpectrum

    gaps = {}
    for n in (32, 33):
        at = np.arange(n) - n // 2
        x = np.exp(-((at[:, None] - 2) ** 2 + at**2) / 20) + 0j
        plain = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x)))
        k = np.fft.fftfreq(n, 1e-5)
        phase = np.exp(-1j * np.pi * 5e-7 * 3e-3 * (k[:, None] ** 2 + k**2))
        moved = np.fft.ifft2(np.fft.fft2(x) * phase)
        found = angularSpectrum(x, 5e-7, 1e-5, 1e-5, 3e-3)
        found = found * np.exp(-1j * np.angle(np.vdot(moved, found)))
        pairs = (ft2(x, 1.0), plain), (found, moved)
        gaps[n] = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs]
    assert max(gaps[32]) < 1e-12 and min(gaps[33]) > 0.01, gaps
    return (
        "for even sizes; for 33 x 33, `ft2` has another phase (the middle is N // 2 + 1), and "
        f"`angularSpectrum` of a Gaussian is off by {100 * gaps[33][1]:.0f} %"
    )


@row(
    SECTION,
    "hotopy",
    guess="`imscale(x, 2)` keeps the middle pixel of an odd size in its place",
    here="`Interpolate` at `(r - n // 2) / scale + n // 2`",
)
def scaled_middle() -> str:
    from hotopy.image import imscale

    middles = []
    for n in (32, 33):
        at = np.arange(n) - n // 2
        image = np.exp(-(at[:, None] ** 2 + at**2) / 8.0)
        found = imscale(image, 2.0).sum(1)
        middles.append(float((found * at).sum() / found.sum()))
    assert abs(middles[0]) < 0.02 and abs(middles[1] + 0.5) < 0.02, middles
    return "N / 2 stays, not rounded: a blob in the middle of 33 pixels moves by half a pixel"


@row(
    SECTION,
    "pyfar",
    guess='`fft_norm="unitary"` keeps inner products',
    here='`RealFFT` with `norm="ortho"`, or scale as seen',
)
def unitary_norm() -> str:
    import pyfar

    wave = np.cos(2 * np.pi * 4 * np.arange(32) / 32)
    found = [abs(pyfar.Signal(wave, 32, fft_norm=norm).freq[0, 4]) for norm in ("none", "unitary")]
    found += [abs(pyfar.Signal(np.ones(32), 32, fft_norm="unitary").freq[0, 0])]
    assert np.allclose(found, [16, 32, 32])
    return (
        "no scale, and twice the values except at 0 and N / 2: 32 for a cosine of 32 samples, "
        "where `none` has 16 and a unitary transform 2.8; a constant has 32"
    )


@row(
    SECTION,
    "pytomography",
    guess="angles of SPECT turn as those of `skimage` or of ours: s = x cos a + y sin a",
    here="`ParallelBeam(-angles, N, (N, N))` with angles in radians",
)
def spect_angles() -> str:
    from pytomography.metadata.SPECT import SPECTObjectMeta, SPECTProjMeta
    from pytomography.projectors.SPECT import SPECTSystemMatrix

    n = 17
    at = torch.arange(n) - n // 2
    blob = torch.exp(-((at[:, None] - 3.0) ** 2 + (at - 1.0) ** 2) / 3)
    degrees = np.array([0.0, 30, 90])
    volume, views = SPECTObjectMeta((1, 1, 1), (n, n, 2)), SPECTProjMeta((n, 2), (1, 1), degrees)
    blobs = blob[..., None].expand(n, n, 2)
    lines = SPECTSystemMatrix([], [], volume, views).forward(blobs).reshape(3, n, 2)[..., 0].cpu()
    found = ((lines * at).sum(1) / lines.sum(1)).numpy()
    expected = 3 * np.cos(np.deg2rad(degrees)) - np.sin(np.deg2rad(degrees))
    assert np.allclose(found, expected, atol=0.02), found
    return "s = x cos a - y sin a in degrees, with x along axis 0: 2.1 for (3, 1) and 30 degrees"


@row(
    SECTION,
    "mrpro",
    guess="`L2NormSquared(weight=2)` is twice the squared norm",
    here="`l2_squared(2 * weight ** 2)`",
)
def weight_inside() -> str:
    from mrpro.operators.functionals import L2NormSquared

    assert L2NormSquared(weight=2.0)(torch.tensor([3.0, 4]))[0] == 100
    return "the weight is inside: 100 for (3, 4), where twice the square is 50"


@row(
    SECTION,
    "mrpro",
    guess="`cg(tolerance=)` is relative to the right-hand side",
    here="`conjugate_gradients(gtol=)`, which is relative",
)
def cg_tolerance() -> str:
    from mrpro.algorithms.optimizers import cg
    from mrpro.operators import EinsumOp

    A, b = EinsumOp(torch.diag(torch.tensor([1.0, 3.0]))), torch.tensor([1.0, 2.0])
    solution, nothing = (cg(A, (scale * b,))[0] / scale for scale in (1.0, 1e-6))
    assert torch.allclose(solution, torch.tensor([1.0, 2 / 3])) and not nothing.any()
    return "it is absolute: for data of 1e-6 it returns 0"


@row(
    SECTION,
    "mrpro",
    guess="`FastFourierOp` keeps the middle N // 2 of any image in any encoded matrix",
    here="`FFT(1, centered=True) @ PadLast(...)`",
)
def odd_in_even() -> str:
    from mrpro.operators import FastFourierOp

    steps = {}
    for image, encoded in ((4, 8), (5, 9), (6, 9), (5, 8), (8, 5)):
        transform = FastFourierOp((-1,), recon_matrix=(image,), encoding_matrix=(encoded,))
        k = transform(torch.eye(image, dtype=torch.complex64)[None, image // 2])[0].flatten()
        steps[image, encoded] = (k[1] / k[0]).angle().item() * encoded / (2 * np.pi)
    assert np.allclose(list(steps.values()), [0, 0, 0, 1, -1], atol=1e-5), steps
    return (
        "not of an odd image in a larger even matrix (5 in 8), nor of an even one in a smaller "
        "odd matrix (8 in 5): k-space has the phase ramp of one pixel"
    )

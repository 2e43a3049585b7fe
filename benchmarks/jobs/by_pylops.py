"""The jobs with PyLops, and with PyProximal where its solvers do not have the penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pylops
import pyproximal
from pylops.medical import CT2D
from pylops.optimization.basic import cgls
from pylops.optimization.sparsity import splitbregman
from pylops.signalprocessing import DWT2D, FFTND, Convolve2D
from pyproximal.optimization.primal import ProximalGradient

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "PyLops"
ABSENT = {
    **dict.fromkeys(
        ("sense_radial", "radial_frames", "subspace", "off_resonance"),
        "it has no non-uniform Fourier transform",
    ),
    "richardson_lucy": "it has no likelihood of counts",
    "cone_beam": "its cones of rays need a GPU",
    "modl": "it has no gradients of complex images",
    "calibration": "it has no ESPIRiT",
}


def scan(maps: Array, mask: Array) -> Any:
    axes = tuple(range(1, maps.ndim))
    S = pylops.VStack([pylops.Diagonal(one.ravel(), dtype="complex64") for one in maps])
    shifts = {"ifftshift_before": True, "fftshift_after": True}
    F = FFTND(maps.shape, axes=axes, norm="ortho", engine="scipy", dtype="complex64", **shifts)
    repeated = np.broadcast_to(mask, maps.shape).astype(np.float32)
    return pylops.Diagonal(repeated.ravel(), dtype="complex64") * F * S


def sense_cartesian(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    A = scan(maps, mask)
    return cgls(A, kspace.ravel(), niter=steps, damp=weight**0.5, tol=0)[0]


sense_volume = sense_cartesian


def wavelet(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    W = DWT2D(maps.shape[1:], wavelet="haar", level=3, dtype="complex64")
    misfit = pyproximal.L2(Op=scan(maps, mask), b=kspace.ravel())
    sparse = pyproximal.Orthogonal(pyproximal.L1(sigma=weight), W)
    start = np.zeros(maps[0].size, np.complex64)
    return ProximalGradient(misfit, sparse, start, tau=1.0, niter=steps, acceleration="fista")


def total_variation(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    size, rho = maps.shape[1:], 0.05
    same = pylops.Identity(maps[0].size, dtype="complex64")
    along = [pylops.Roll(size, axis=axis, shift=-1, dtype="complex64") - same for axis in (0, 1)]
    return splitbregman(
        scan(maps, mask),
        kspace.ravel(),
        along,
        niter_outer=steps,
        niter_inner=1,
        mu=weight / rho**2,
        epsRL1s=[weight / rho] * 2,
        tol=1e-10,  # with 0 it takes no step
        iter_lim=10,
    )[0]


def deblurring(blurred: Array, kernel: Array, weight: float, steps: int) -> Any:
    n, edge = blurred.shape[0] + kernel.shape[0] - 1, kernel.shape[0] // 2
    B = Convolve2D((n, n), kernel, offset=(edge, edge), dtype="float32")
    inner = np.arange(n * n).reshape(n, n)[edge:-edge, edge:-edge]
    A = pylops.Restriction(n * n, inner.ravel(), dtype="float32", forceflat=True) * B
    weights = np.full((n, n), weight, np.float32)
    weights[: n // 8, : n // 8] = 0
    W = DWT2D((n, n), wavelet="haar", level=3, dtype="float32")
    misfit = pyproximal.L2(Op=A, b=blurred.ravel())
    sparse = pyproximal.Orthogonal(pyproximal.L1(sigma=weights.ravel()), W)
    start = np.zeros(n * n, np.float32)
    return ProximalGradient(misfit, sparse, start, tau=1.0, niter=steps, acceleration="fista")


def tomography(sinogram: Array, angles: Array, weight: float, steps: int) -> Any:
    n_detectors = sinogram.shape[-1]
    n = 2 * n_detectors // 3
    A = CT2D((n, n), 1.0, n_detectors, angles, engine="cpu", projector_type="linear")
    x = cgls(A, sinogram.ravel(), niter=steps, damp=weight**0.5, tol=0)[0]
    return x.reshape(n, n)[::-1].T


def low_rank_plus_sparse(
    kspace: Array,
    maps: Array,
    mask: Array,
    low_rank: float,
    sparse: float,
    low_rank_share: float,
    sparse_share: float,
    steps: int,
) -> Any:
    n_frames = len(mask)
    n = mask.size
    rows = [np.broadcast_to(one, mask.shape).ravel() for one in maps]
    S = pylops.VStack([pylops.Diagonal(row, dtype="complex64") for row in rows])
    shifts = {"ifftshift_before": True, "fftshift_after": True}
    options = {"norm": "ortho", "engine": "scipy", "dtype": "complex64"}
    F = FFTND(kspace.shape, axes=(2, 3), **options, **shifts)
    M = pylops.Diagonal(np.broadcast_to(mask, kspace.shape).ravel().astype(np.float32))
    same = pylops.Identity(n, dtype="complex64")
    A = M * F * S * pylops.HStack([same, same])
    misfit = pyproximal.L2(Op=A, b=kspace.ravel())
    along = FFTND(mask.shape, axes=(0,), **options)
    # Pixels first: it also finds eigenvalues of X^T X, as large as the second axis.
    turned = pylops.Transpose((n_frames, n // n_frames), axes=(1, 0), dtype="complex64")
    parts = [
        pyproximal.Orthogonal(pyproximal.Nuclear((n // n_frames, n_frames), low_rank), turned),
        pyproximal.Orthogonal(pyproximal.L1(sigma=sparse), along),
    ]
    both = pyproximal.VStack(parts, nn=[n, n])
    start = np.zeros(2 * n, np.complex64)
    x = ProximalGradient(misfit, both, start, tau=0.5, niter=steps, acceleration="fista")
    return x[:n] + x[n:]


def short_scan(sinogram: Array, angles: Array, steps: int) -> Any:
    n_detectors = sinogram.shape[-1]
    n = 2 * n_detectors // 3
    A = CT2D(
        (n, n),
        1.5,
        n_detectors,
        angles,
        engine="cpu",
        proj_geom_type="fanflat",
        source_origin_dist=3 * n,
        origin_detector_dist=1.5 * n,
        projector_type="line",
    )
    x = cgls(A, sinogram.ravel(), niter=steps, tol=0)[0]
    return x.reshape(n, n)[::-1].T

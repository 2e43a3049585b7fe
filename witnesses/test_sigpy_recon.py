"""Reconstructions in one call against the applications of sigpy: the same images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchlinops as tl
from torchlinops import recon

apps = pytest.importorskip("sigpy.mri").app
DIMS = ("C", "Kx", "Ky")
N = (64, 64)


def scan(n_coils: int = 4) -> tuple[np.ndarray, np.ndarray, float]:
    """Return k-space with zeros and noise, the maps, and the largest pixel of A^H y."""
    generator = torch.Generator().manual_seed(0)
    maps = tl.phantoms.CoilSeries.around(n_coils).on_grid(N, torch.complex128)
    maps = maps / maps.norm(dim=0)
    F = tl.FFT(2, centered=True)
    kspace = F(maps * tl.phantoms.shepp_logan(N, torch.float64))
    kspace = kspace + 0.01 * torch.randn(kspace.shape, dtype=kspace.dtype, generator=generator)
    kspace = kspace * tl.masks.poisson_disc(N, acceleration=3, calibration=12)
    seen = (maps.conj() * F.H(kspace)).sum(0).abs().max()
    return kspace.numpy(), maps.numpy(), float(seen)


def is_near(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    return bool(np.linalg.norm(result - wanted) < tolerance * np.linalg.norm(wanted))


def test_sense() -> None:
    kspace, maps, _ = scan()
    app = apps.SenseRecon(kspace, maps, lamda=0.05, max_iter=60, show_pbar=False)
    result = recon.sense(kspace, DIMS, maps, ridge=0.05, max_num_iters=60, tol=0)
    assert is_near(result, app.run(), 1e-6)


def test_sense_along_a_trajectory() -> None:
    _, maps, _ = scan()
    locs = tl.trajectories.radial_2d(40, 64, N)
    kspace = tl.phantoms.shepp_logan_kspace(locs, N, tl.phantoms.CoilSeries.around(4)).numpy()
    coord = locs.numpy()
    app = apps.SenseRecon(kspace, maps, coord=coord, lamda=1.0, max_iter=60, show_pbar=False)
    result = recon.sense(
        *(kspace, ("C", "K1", "K2"), maps),
        locs=coord,
        grid_size=N,
        weights=np.ones(coord.shape[:-1]),
        ridge=1.0,
        max_num_iters=60,
        tol=0,
    )
    assert is_near(result, app.run(), 5e-3)


def test_l1_wavelet() -> None:
    """Of Haar wavelets, which need no values beyond the edge."""
    kspace, maps, seen = scan()
    wanted = apps.L1WaveletRecon(
        *(kspace, maps, 0.01 * seen), wave_name="haar", max_iter=400, show_pbar=False
    ).run()
    result = recon.l1_wavelet(
        kspace, DIMS, maps, weight=0.01, wavelet="haar", max_num_iters=400, tol=0
    )
    assert is_near(result, wanted, 1e-3)


def test_total_variation() -> None:
    """Of an image that changes along one axis only: there both kinds of it are the same.

    Its margins are equal, so that they have one value although sigpy's differences are circular.
    """
    x = np.zeros(64)
    x[12:32], x[32:52] = 1.0, 0.4
    image = np.repeat(x[:, None], 64, 1).astype(complex)
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image), norm="ortho"))[None]
    maps = np.ones((1, 64, 64), complex)
    wanted = apps.TotalVariationRecon(kspace, maps, 0.1, max_iter=1000, show_pbar=False).run()
    result = recon.total_variation(
        kspace, DIMS, maps, weight=0.1 / abs(image).max(), tol=0, max_num_iters=100
    )
    assert is_near(result, wanted, 1e-3)

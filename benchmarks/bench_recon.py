"""Reconstructions in one call, against the applications of sigpy: as near to the minimum.

Ratios are of processor time, with one thread. Both minimise the same function, except that sigpy's
wavelets take zeros beyond the edge, and its total variation is anisotropic. Their images differ by
the given amounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from interleaved import interleaved, print_timings
from peers import importable

import torchlinops as tl
from torchlinops import recon

N, N_COILS, ROUNDS = (256, 256), 8, 3
DIMS = ("C", "Kx", "Ky")
TARGET = 1.0
Image = np.ndarray[tuple[int, ...], np.dtype[np.complex64]]


def scan() -> tuple[Image, Image, float]:
    """Return a quarter of k-space with noise, the maps, and the largest pixel of A^H y."""
    torch.manual_seed(0)
    maps = tl.phantoms.CoilSeries.around(N_COILS).on_grid(N)
    maps = maps / maps.norm(dim=0)
    F = tl.FFT(2, centered=True)
    kspace = F(maps * tl.phantoms.shepp_logan(N))
    kspace = kspace + 5e-4 * kspace.abs().max() * torch.randn_like(kspace)
    kspace = kspace * tl.masks.poisson_disc(N, acceleration=4, calibration=20)
    seen = (maps.conj() * F.H(kspace)).sum(0).abs().max()
    return kspace.numpy(), maps.numpy(), float(seen)


def jobs() -> Mapping[str, tuple[float, Mapping[str, Callable[[], Image]]]]:
    """Return by how much the images may differ, and each job in both ways."""
    kspace, maps, seen = scan()
    apps = importable(["sigpy.mri.app"])["sigpy.mri.app"]
    given, weight, tol = (kspace, maps), 0.002, {"tol": 0.0}

    def app(kind: str, *options: float, steps: int) -> Callable[[], Image]:
        return lambda: getattr(apps, kind)(*given, *options, max_iter=steps, show_pbar=False).run()

    def ours(function: Callable[..., Image], **options: float) -> Callable[[], Image]:
        return lambda: function(kspace, DIMS, maps, **options)

    penalty = weight * seen
    return {
        "SENSE, 30 steps each": (
            1e-3,
            {
                "sigpy": app("SenseRecon", steps=30),
                "recon.sense": ours(recon.sense, max_num_iters=30, **tol),
            },
        ),
        "wavelets, 100 steps each": (
            5e-2,
            {
                "sigpy": app("L1WaveletRecon", penalty, steps=100),
                "recon.l1_wavelet": ours(recon.l1_wavelet, max_num_iters=100, **tol),
            },
        ),
        "total variation, 300 steps of PDHG and 25 of ADMM": (
            1e-2,
            {
                "sigpy": app("TotalVariationRecon", penalty, steps=300),
                "recon.total_variation": ours(recon.total_variation, max_num_iters=25, **tol),
            },
        ),
    }


def main() -> None:
    """Time all jobs after comparing their images."""
    torch.set_num_threads(1)
    for name, (difference, ways) in jobs().items():
        first, second = (way() for way in ways.values())
        error = float(np.linalg.norm(second - first) / np.linalg.norm(first))
        assert error < difference, (name, error)
        ours = [*ways][1]
        title = f"{name}; {N_COILS} coils, {N[0]} x {N[1]}; images differ by {error:.1e}"
        timings = interleaved(ways, ROUNDS, clock=time.process_time)
        print_timings(title, timings, {ours: TARGET})


if __name__ == "__main__":
    main()

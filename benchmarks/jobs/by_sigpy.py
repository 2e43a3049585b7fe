"""The jobs with sigpy: its applications where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import sigpy
import sigpy.mri

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "sigpy"
ABSENT = {
    "modl": "it has no gradients",
    "low_rank_plus_sparse": "it has no nuclear norm",
    "richardson_lucy": "it has no likelihood of counts",
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
}


def sense_cartesian(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    app = sigpy.mri.app.SenseRecon(kspace, maps, lamda=weight, max_iter=steps, show_pbar=False)
    return app.run()


sense_volume = sense_cartesian


def sense_radial(kspace: Array, maps: Array, locs: Array, weight: float, steps: int) -> Any:
    app = sigpy.mri.app.SenseRecon(
        kspace, maps, coord=locs, lamda=weight, max_iter=steps, show_pbar=False
    )
    return app.run()


def radial_frames(kspace: Array, maps: Array, locs: Array, weight: float, steps: int) -> Any:
    frames = zip(kspace, locs, strict=True)
    return np.stack([sense_radial(y, maps, at, weight, steps) for y, at in frames])


def wavelet(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    S = sigpy.mri.linop.Sense(maps, weights=mask)
    W = sigpy.linop.Wavelet(S.ishape, wave_name="haar", level=3)
    sparse = sigpy.prox.UnitaryTransform(sigpy.prox.L1Reg(W.oshape, weight), W)
    app = sigpy.app.LinearLeastSquares(S, kspace, proxg=sparse, max_iter=steps, show_pbar=False)
    return app.run()


def total_variation(kspace: Array, maps: Array, mask: Array, weight: float, steps: int) -> Any:
    app = sigpy.mri.app.TotalVariationRecon(
        kspace, maps, weight, max_iter=steps, sigma=0.1, show_pbar=False
    )
    return app.run()


def deblurring(blurred: Array, kernel: Array, weight: float, steps: int) -> Any:
    n = blurred.shape[0] + kernel.shape[0] - 1
    A = sigpy.linop.ConvolveData([n, n], kernel, mode="valid")
    weights = np.full((n, n), weight, np.float32)
    weights[: n // 8, : n // 8] = 0
    W = sigpy.linop.Wavelet([n, n], wave_name="haar", level=3)
    sparse = sigpy.prox.UnitaryTransform(sigpy.prox.L1Reg(W.oshape, weights), W)
    app = sigpy.app.LinearLeastSquares(A, blurred, proxg=sparse, max_iter=steps, show_pbar=False)
    return app.run()


def calibration(kspace: Array, mask: Array, weight: float, steps: int) -> Any:
    maps = sigpy.mri.app.EspiritCalib(kspace, crop=0.8, show_pbar=False).run()
    return sense_cartesian(kspace, maps, mask, weight, steps)


def subspace(
    kspace: Array, maps: Array, locs: Array, basis: Array, weight: float, steps: int
) -> Any:
    rank, size = basis.shape[1], maps.shape[1:]
    add = sigpy.linop.Sum((rank, 1, *size), (0,))
    coils = sigpy.linop.Multiply((1, *size), maps)
    frames = []
    for shares, at in zip(basis, locs, strict=True):
        mix = add * sigpy.linop.Multiply((rank, 1, *size), shares[:, None, None, None])
        frames.append(sigpy.linop.NUFFT(coils.oshape, at) * coils * mix)
    A = sigpy.linop.Vstack(frames)
    app = sigpy.app.LinearLeastSquares(
        A, kspace.ravel(), lamda=weight, max_iter=steps, show_pbar=False
    )
    return app.run()


def off_resonance(
    kspace: Array,
    maps: Array,
    locs: Array,
    field: Array,
    times: Array,
    weight: float,
    steps: int,
) -> Any:
    # Times are in ms, and the phase of the image falls.
    segments = {"b0": -field, "dt": 1e3 * float(times[1]), "lseg": 12, "n_bins": 100}
    shots = [sigpy.mri.linop.Sense(maps, coord=at, tseg=dict(segments)) for at in locs]
    A = sigpy.linop.Vstack(shots)
    y = np.moveaxis(kspace, 1, 0).ravel()
    app = sigpy.app.LinearLeastSquares(A, y, lamda=weight, max_iter=steps, show_pbar=False)
    return app.run()

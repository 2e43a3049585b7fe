"""The jobs of non-Cartesian MRI with mri-nufft on finufft, and its solver."""

from __future__ import annotations

import math
from typing import Any

import mrinufft
import numpy as np
from mrinufft.operators import MRISubspace
from scipy.sparse.linalg import LinearOperator, lsqr

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "mri-nufft"
ABSENT = {
    **dict.fromkeys(("sense_cartesian", "sense_volume"), "it is for non-Cartesian scans"),
    **dict.fromkeys(
        ("wavelet", "total_variation", "low_rank_plus_sparse"),
        "it has no penalties but least squares",
    ),
    "modl": "it is for non-Cartesian scans",
    "calibration": "it has no ESPIRiT",
    **dict.fromkeys(("deblurring", "richardson_lucy"), "it has no convolution"),
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
}


def operator(maps: Array, locs: Array) -> Any:
    size = maps.shape[1:]
    points = (2 * math.pi / size[0] * locs).reshape(-1, 2).astype(np.float32)
    make = mrinufft.get_operator("finufft")
    return make(points, size, n_coils=len(maps), smaps=maps, eps=1e-2)


def solved(A: Any, kspace: Array, weight: float, steps: int) -> Any:
    options = {"max_iter": steps, "atol": 0.0, "btol": 0.0, "conlim": 0.0, "progressbar": False}
    # Its transform is half of the unitary one.
    return A.pinv_solver(kspace / 2, optim="lsqr", damp=weight**0.5 / 2, **options)


def sense_radial(kspace: Array, maps: Array, locs: Array, weight: float, steps: int) -> Any:
    return solved(operator(maps, locs), kspace.reshape(len(maps), -1), weight, steps)


def radial_frames(kspace: Array, maps: Array, locs: Array, weight: float, steps: int) -> Any:
    frames = zip(kspace, locs, strict=True)
    return np.stack([sense_radial(y, maps, at, weight, steps) for y, at in frames])


def off_resonance(
    kspace: Array,
    maps: Array,
    locs: Array,
    field: Array,
    times: Array,
    weight: float,
    steps: int,
) -> Any:
    A = operator(maps, locs).with_off_resonance_correction(
        b0_map=field,
        readout_time=np.tile(times, len(locs)),
        mask=np.ones(field.shape, bool),
        interpolator={"name": "mti", "L": 8, "n_bins": 512},
    )
    return solved(A, kspace.reshape(len(maps), -1), weight, steps)


def subspace(
    kspace: Array, maps: Array, locs: Array, basis: Array, weight: float, steps: int
) -> Any:
    # Its own solvers do not take the operator of a subspace.
    A = MRISubspace(operator(maps, locs), np.ascontiguousarray(basis.T))
    samples, size = (len(locs), len(maps), -1), maps.shape[1:]
    as_matrix = LinearOperator(
        (kspace.size, basis.shape[1] * maps[0].size),
        matvec=lambda x: A.op(x.astype(np.complex64).reshape(-1, 1, *size)).ravel(),
        rmatvec=lambda y: A.adj_op(y.astype(np.complex64).reshape(samples)).ravel(),
        dtype=np.complex64,
    )
    options = {"atol": 0, "btol": 0, "conlim": 0}
    result = lsqr(as_matrix, kspace.ravel() / 2, damp=weight**0.5 / 2, iter_lim=steps, **options)
    return result[0].reshape(-1, *size)

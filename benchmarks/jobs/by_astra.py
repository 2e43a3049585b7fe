"""The job of tomography with ASTRA, by SciPy's solver as its documentation has it."""

from __future__ import annotations

from typing import Any

import astra
from scipy.sparse.linalg import lsqr

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "ASTRA"
ABSENT = dict.fromkeys(
    (
        "cone_beam",
        "sense_cartesian",
        "sense_volume",
        "sense_radial",
        "radial_frames",
        "subspace",
        "off_resonance",
        "low_rank_plus_sparse",
        "richardson_lucy",
        "wavelet",
        "total_variation",
        "modl",
        "deblurring",
        "calibration",
    ),
    "on a CPU it only has X-ray transforms of images",
)


def tomography(sinogram: Array, angles: Array, weight: float, steps: int) -> Any:
    n_detectors = sinogram.shape[-1]
    n = 2 * n_detectors // 3
    rays = astra.create_proj_geom("parallel", 1.0, n_detectors, angles)
    A = astra.OpTomo(astra.create_projector("linear", rays, astra.create_vol_geom(n, n)))
    result = lsqr(A, sinogram.ravel(), damp=weight**0.5, iter_lim=steps, atol=0, btol=0, conlim=0)
    return result[0].reshape(n, n)[::-1].T


def short_scan(sinogram: Array, angles: Array, steps: int) -> Any:
    n_detectors = sinogram.shape[-1]
    n = 2 * n_detectors // 3
    rays = astra.create_proj_geom("fanflat", 1.5, n_detectors, angles, 3 * n, 1.5 * n)
    A = astra.OpTomo(astra.create_projector("line_fanflat", rays, astra.create_vol_geom(n, n)))
    result = lsqr(A, sinogram.ravel(), iter_lim=steps, atol=0, btol=0, conlim=0)
    return result[0].reshape(n, n)[::-1].T

"""The job of deconvolution with scikit-image."""

from __future__ import annotations

from typing import Any

from skimage import restoration

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "scikit-image"
ABSENT = {
    **dict.fromkeys(
        (
            "sense_cartesian",
            "sense_volume",
            "sense_radial",
            "radial_frames",
            "subspace",
            "off_resonance",
            "wavelet",
            "total_variation",
            "low_rank_plus_sparse",
            "modl",
            "calibration",
        ),
        "it has nothing for k-space",
    ),
    "deblurring": "it has no wavelet penalty for a convolution",
    "tomography": "it has no least squares for its X-ray transform",
    "short_scan": "it only has parallel rays",
    "cone_beam": "it only has parallel rays",
}


def richardson_lucy(counts: Array, psf: Array, steps: int) -> Any:
    return restoration.richardson_lucy(counts, psf, num_iter=steps, clip=False)

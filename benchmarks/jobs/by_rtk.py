"""The jobs of cones and fans of rays with RTK, on one thread."""

from __future__ import annotations

import math
from typing import Any

import itk
import numpy as np

from jobs.problem import Array

ARRAYS = "numpy"
WITH = "RTK"
ABSENT = dict.fromkeys(
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
        "deblurring",
        "richardson_lucy",
        "tomography",
        "calibration",
    ),
    "it only has cones of rays",
)
itk.MultiThreaderBase.SetGlobalMaximumNumberOfThreads(1)
itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(1)
Volume = itk.Image[itk.F, 3]


def placed(values: Array, *spacings: float) -> Any:
    image = itk.image_from_array(np.ascontiguousarray(values))
    image.SetSpacing(spacings)
    lengths = zip(reversed(values.shape), spacings, strict=True)
    image.SetOrigin([-(n - 1) / 2 * spacing for n, spacing in lengths])
    return image


def scan_of(angles: Array, source: float, detector: float) -> Any:
    scan = itk.RTK.ThreeDCircularProjectionGeometry.New()
    for angle in angles.tolist():
        scan.AddProjection(source, source + detector, math.degrees(angle))
    return scan


def cone_beam(sinogram: Array, angles: Array, weight: float, steps: int) -> Any:
    n = sinogram.shape[-1]
    kind = itk.RTK.ConjugateGradientConeBeamReconstructionFilter[Volume]
    work = kind.New()
    work.SetGeometry(scan_of(angles, 4 * n, 2 * n))
    work.SetForwardProjectionFilter(kind.ForwardProjectionType_FP_JOSEPH)
    work.SetBackProjectionFilter(kind.BackProjectionType_BP_JOSEPH)
    work.SetDisableDisplacedDetectorFilter(True)
    work.SetInput(0, placed(np.zeros((n, n, n), np.float32), 1.0, 1.0, 1.0))
    work.SetInput(1, placed(sinogram, 1.5, 1.5, 1.0))
    work.SetNumberOfIterations(steps)
    work.SetTikhonov(weight)
    work.Update()
    return itk.array_from_image(work.GetOutput())[::-1].transpose(2, 0, 1)


def short_scan(sinogram: Array, angles: Array, steps: int) -> Any:
    n_detectors = sinogram.shape[-1]
    n = 2 * n_detectors // 3
    scan = scan_of(angles, 3 * n, 1.5 * n)
    # A detector of three equal rows, and a volume of one slice in the middle.
    rows = np.repeat(sinogram[:, None], 3, axis=1)
    weighted = itk.RTK.ParkerShortScanImageFilter[Volume].New()
    weighted.SetGeometry(scan)
    weighted.SetInput(placed(rows, 1.5, 1.5, 1.0))
    work = itk.RTK.FDKConeBeamReconstructionFilter[Volume].New()
    work.SetGeometry(scan)
    work.SetInput(0, placed(np.zeros((n, 1, n), np.float32), 1.0, 1.0, 1.0))
    work.SetInput(1, weighted.GetOutput())
    work.Update()
    return itk.array_from_image(work.GetOutput())[::-1, 0].T

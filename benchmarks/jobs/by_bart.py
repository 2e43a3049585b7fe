"""The jobs with BART's commands, on files that are there; each command is a process."""

from __future__ import annotations

from typing import Any

from jobs.commands import bart
from linops_imaging.io import read_cfl

ARRAYS = "files"
WITH = "BART"
ABSENT = {
    "total_variation": "its total variation takes both differences of a pixel together",
    "modl": "Debian's build has no networks",
    "off_resonance": "Debian's build reconstructs without a field map",
    "low_rank_plus_sparse": "it penalises one series, and not two whose sum is measured",
    **dict.fromkeys(("deblurring", "richardson_lucy"), "it has no deconvolution"),
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
}


def sense_cartesian(weight: float, steps: int) -> Any:
    bart("pics", "-l2", "-r", weight, "-w1", "-i", steps, "kspace", "maps", "image")
    return read_cfl("image")


sense_volume = sense_cartesian


def sense_radial(weight: float, steps: int) -> Any:
    options = ("-l2", "-r", weight, "-w1", "-i", steps)
    bart("pics", *options, "-t", "locs", "kspace", "maps", "image")
    return read_cfl("image")


def radial_frames(weight: float, steps: int) -> Any:
    return sense_radial(weight, steps).movedim(-1, 0)


def subspace(weight: float, steps: int) -> Any:
    options = ("-l2", "-r", weight, "-w1", "-i", steps, "-B", "basis")
    bart("pics", *options, "-t", "locs", "kspace", "maps", "image")
    return read_cfl("image").movedim(-1, 0)


def wavelet(weight: float, steps: int) -> Any:
    sparse = ("-R", f"W:3:0:{weight}", "--wavelet", "haar", "-n")
    bart("pics", *sparse, "-w1", "-i", steps, "kspace", "maps", "image")
    return read_cfl("image")


def calibration(weight: float, steps: int) -> Any:
    bart("ecalib", "-m1", "kspace", "maps")
    return sense_cartesian(weight, steps)

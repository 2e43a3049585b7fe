"""What the CT example found: as a table, as a picture and as JSON."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from demo_measure import Measured, mebibytes
from demo_output import write_together
from torch import Tensor

JSON, PICTURE = "ct.json", "ct.png"
CLEARLY_BETTER = 0.8
"""How large the error of total variation may be, as a part of that of filtered back projection."""


@dataclass(frozen=True)
class Report:
    """The images and what is to be said of them."""

    reference: Tensor
    sinogram: Tensor
    runs: Mapping[str, Measured]
    errors: Mapping[str, float]
    """Of each image |x - reference| / |reference|."""
    difference: float
    """Largest difference between whole and split, over the largest value of whole."""
    rounding: float
    """What the difference may be."""
    settings: Mapping[str, object]

    @classmethod
    def of(
        cls,
        reference: Tensor,
        sinogram: Tensor,
        runs: Mapping[str, Measured],
        options: argparse.Namespace,
    ) -> Report:
        """Compare the images with the head, and least squares whole with split."""
        errors = {
            name: float((run.value - reference).norm() / reference.norm())
            for name, run in runs.items()
        }
        whole, split = runs["least squares"].value, runs["least squares, split"].value
        # Each step rounds, and passes on what the steps before it have rounded.
        rounding = 100 * torch.finfo(whole.dtype).eps * options.iterations
        difference = float((whole - split).abs().max() / whole.abs().max())
        settings = {name: value for name, value in vars(options).items() if name != "output"}
        return cls(reference, sinogram, runs, errors, difference, rounding, settings)

    @property
    def agrees(self) -> bool:
        """Whether whole and split are the same but for rounding."""
        return self.difference <= self.rounding

    @property
    def improves(self) -> bool:
        """Whether total variation is clearly better than filtered back projection."""
        limit = CLEARLY_BETTER * self.errors["filtered back projection"]
        return self.errors["total variation"] <= limit

    def psnr(self, name: str) -> float:
        """Return the ratio of the largest pixel to the root mean square error, in decibels."""
        error = self.runs[name].value - self.reference
        return -20 * math.log10(float(error.square().mean().sqrt() / self.reference.max()))


def print_table(report: Report) -> None:
    """Print the errors, the difference and the cost."""
    print(f"\n{'':26}{'error':>8}{'PSNR':>10}{'time':>10}{'increase':>14}")
    for name, run in report.runs.items():
        print(
            f"{name:26}{report.errors[name]:8.4f}{report.psnr(name):7.1f} dB{run.seconds:8.2f} s"
            f"{mebibytes(run.extra_bytes):>14}"
        )
    print("\nerror: |x - reference| / |reference|")
    print("increase: of the memory in use, from the start of the run to its peak")
    print(
        f"largest difference between whole and split: {report.difference:.1e} of the maximum, "
        f"{'rounding' if report.agrees else f'MORE THAN ROUNDING ({report.rounding:.1e})'}"
    )
    if not report.improves:
        print("total variation is NOT CLEARLY BETTER than filtered back projection")


def write_files(report: Report, folder: Path) -> list[Path]:
    """Write the JSON and the picture into ``folder`` and return their paths."""
    writers: dict[str, Callable[[Path], object]] = {
        JSON: lambda path: path.write_text(_as_json(report)),
        PICTURE: lambda path: draw(report, path),
    }
    return write_together(folder, writers)


def _as_json(report: Report) -> str:
    runs = {
        name: {
            "error": report.errors[name],
            "psnr": report.psnr(name),
            "seconds": run.seconds,
            "peak_bytes": run.peak_bytes,
            "extra_bytes": run.extra_bytes,
        }
        for name, run in report.runs.items()
    }
    content = {
        "settings": report.settings,
        "runs": runs,
        "difference": report.difference,
        "rounding": report.rounding,
        "agrees": report.agrees,
        "improves": report.improves,
    }
    return json.dumps(content, indent=2) + "\n"


def draw(report: Report, path: Path) -> None:
    """Draw the head, the sinogram and every image, and below it its error, five times as bright."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {"head": report.reference} | {name: run.value for name, run in report.runs.items()}
    brightest = float(report.reference.max()) / 2  # inside the skull all is below
    figure, axes = pyplot.subplots(2, len(shown), figsize=(14, 6.2), layout="constrained")
    figure.set_facecolor("black")
    for column, (name, image) in enumerate(shown.items()):
        top, bottom = axes[:, column]
        top.imshow(image.cpu().T.flip(0).numpy(), cmap="gray", vmin=0, vmax=brightest)
        error = "" if name not in report.errors else f"\nerror {report.errors[name]:.4f}"
        top.set_title(name + error, color="white")
        if name == "head":
            bottom.imshow(report.sinogram.cpu().numpy(), cmap="gray", aspect="auto")
            bottom.set_title("sinogram", color="white")
        else:
            away = (image - report.reference).abs().cpu().T.flip(0).numpy()
            bottom.imshow(away, cmap="gray", vmin=0, vmax=brightest / 5)
            bottom.set_title("5 |image - head|", color="white")
        for axis in (top, bottom):
            axis.set_axis_off()
    figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)

"""What the SENSE example found: as a table, as a picture and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from demo_measure import Measured, mebibytes
from demo_output import write_together
from sense_data import Scan
from torch import Tensor

from torchlinops import Identity, NamedLinop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JSON, PICTURE = "sense.json", "sense.png"
CLEARLY_BETTER = 0.8
"""How large the error may be, as a part of that of the zero-filled image."""


@dataclass(frozen=True)
class Report:
    """The three images and what is to be said of them."""

    scan: Scan
    zero_filled: Tensor
    whole: Measured
    split: Measured
    errors: dict[str, float]
    """Of each image: |x - reference| / |reference|, or |A x - y| / |y| without a reference."""
    difference: float
    """Largest difference between whole and split, over the largest value of whole."""
    rounding: float
    """What the difference may be."""
    iterations: int
    regularize: str

    @classmethod
    def of(
        cls,
        A: NamedLinop,
        y: Tensor,
        scan: Scan,
        whole: Measured,
        split: Measured,
        iterations: int,
        regularize: str,
    ) -> Report:
        """Compare the reconstructions with each other and with the zero-filled image.

        The zero-filled image A^H y is scaled to fit as well as it can, so that it is not
        counted against it that sampling less makes it darker.
        """
        seen, target = (A, y) if scan.reference is None else (Identity(A.ishape), scan.reference)
        zero_filled = A.H(y)
        shown = seen(zero_filled)
        overlap = torch.vdot(shown.flatten(), target.flatten())
        zero_filled = zero_filled * (overlap / torch.vdot(shown.flatten(), shown.flatten()))
        images = {"zero-filled": zero_filled, "whole": whole.value, "split": split.value}
        errors = {name: _relative(seen(image), target) for name, image in images.items()}
        difference = (whole.value - split.value).abs().max() / whole.value.abs().max()
        # Each step rounds, and passes on what the steps before it have rounded.
        rounding = 100 * torch.finfo(whole.value.dtype).eps * iterations
        return cls(
            scan=scan,
            zero_filled=zero_filled,
            whole=whole,
            split=split,
            errors=errors,
            difference=float(difference),
            rounding=rounding,
            iterations=iterations,
            regularize=regularize,
        )

    @property
    def agrees(self) -> bool:
        """Whether whole and split are the same but for rounding."""
        return self.difference <= self.rounding

    @property
    def improves(self) -> bool:
        """Whether both are clearly better than the zero-filled image."""
        limit = CLEARLY_BETTER * self.errors["zero-filled"]
        return max(self.errors["whole"], self.errors["split"]) <= limit


def print_table(report: Report) -> None:
    """Print the errors, the difference and the cost."""
    kind = "|A x - y| / |y|" if report.scan.reference is None else "|x - reference| / |reference|"
    print(f"\n{'':14}{'error':>10}{'time':>10}{'peak memory':>14}{'increase':>14}")
    print(f"{'zero-filled':14}{report.errors['zero-filled']:10.4f}")
    for name, run in (("whole", report.whole), ("split", report.split)):
        print(
            f"{name:14}{report.errors[name]:10.4f}{run.seconds:8.2f} s"
            f"{mebibytes(run.peak_bytes):>14}{mebibytes(run.extra_bytes):>14}"
        )
    print(f"\nerror: {kind}; {report.iterations} iterations")
    print("increase: of the memory in use, from the start of the run to its peak")
    print(
        f"largest difference between whole and split: {report.difference:.1e} of the maximum, "
        f"{'rounding' if report.agrees else f'MORE THAN ROUNDING ({report.rounding:.1e})'}"
    )
    if not report.improves:
        print("the reconstruction is NOT CLEARLY BETTER than the zero-filled image")


def write_files(report: Report, folder: Path) -> list[Path]:
    """Write the JSON and the picture into ``folder`` and return their paths."""
    return write_together(
        folder,
        {
            JSON: lambda path: path.write_text(_as_json(report)),
            PICTURE: lambda path: draw(report, path),
        },
    )


def _as_json(report: Report) -> str:
    runs = {
        name: {
            "error": report.errors[name],
            "seconds": run.seconds,
            "peak_bytes": run.peak_bytes,
            "extra_bytes": run.extra_bytes,
        }
        for name, run in (("whole", report.whole), ("split", report.split))
    }
    content = {
        "description": report.scan.description.splitlines(),
        "error_is": "residual" if report.scan.reference is None else "nrmse",
        "iterations": report.iterations,
        "regularize": report.regularize,
        "zero_filled": {"error": report.errors["zero-filled"]},
        **runs,
        "difference": report.difference,
        "rounding": report.rounding,
        "agrees": report.agrees,
        "improves": report.improves,
    }
    return json.dumps(content, indent=2) + "\n"


def draw(report: Report, path: Path) -> None:
    """Draw the middle slice of every image, and below it its error, five times as bright.

    Without a reference there is no error to draw; the difference between both reconstructions
    and the zero-filled image is shown instead. Below the image that the others are compared with
    are the points of k-space that were measured.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    middle = report.zero_filled.shape[0] // 2
    images = {"zero-filled": report.zero_filled}
    if report.scan.reference is not None:
        images = {"reference": report.scan.reference, **images}
    images |= {"whole": report.whole.value, "split": report.split.value}
    shown = {name: image[middle].abs().cpu().T.flip(0).numpy() for name, image in images.items()}
    base_name = "zero-filled" if report.scan.reference is None else "reference"
    base, brightest = shown[base_name], max(image.max() for image in shown.values())
    height, width = base.shape
    size = (2.8 * len(shown), 2 * (2.8 * height / width + 0.6))
    figure, axes = pyplot.subplots(2, len(shown), figsize=size, layout="constrained", squeeze=False)
    figure.set_facecolor("black")
    for column, (name, image) in enumerate(shown.items()):
        top, bottom = axes[:, column]
        top.imshow(image, cmap="gray", vmin=0, vmax=brightest)
        error = "" if name not in report.errors else f"\nerror {report.errors[name]:.4f}"
        top.set_title(name + error, color="white")
        top.set_axis_off()
        if name == base_name:
            _draw_sampling(bottom, report.scan)
        else:
            bottom.imshow(abs(image - base), cmap="gray", vmin=0, vmax=brightest / 5)
            bottom.set_title(f"5 |{name} - {base_name}|", color="white")
            bottom.set_axis_off()
    figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)


def _draw_sampling(axis: Axes, scan: Scan) -> None:
    """Draw the points of k-space that were measured, in a frame."""
    height, width = scan.mask.T.shape
    if scan.locs is None:
        axis.imshow(scan.mask.cpu().T.flip(0).numpy(), cmap="gray", vmin=0, vmax=1)
    else:
        axis.plot(*scan.locs.cpu().T.numpy(), "w,")
        axis.set(xlim=(-width / 2, width / 2), ylim=(-height / 2, height / 2), aspect="equal")
        axis.set_facecolor("black")
    axis.set_title("k-space, measured", color="white")
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_color("gray")


def _relative(x: Tensor, target: Tensor) -> float:
    return float((x - target).norm() / target.norm())

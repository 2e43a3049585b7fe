"""Reconstruct a CT slice from few views: filtered back projection, least squares, total variation.

The scanner measures line integrals of a head of ellipses (Shepp and Logan), which are known in
closed form: they are not made by the operator that reconstructs, ``ParallelBeam``. Filtered back
projection is exact for many views; least squares, by FISTA, asks for pixels that are not negative
and explain the data; total variation, by ADMM, asks for few edges. Least squares is solved twice,
with the operator as it is and with the operator split along the views onto the devices there are.
Errors, times and how far the two are apart go into a table, a picture and a JSON file.

    python examples/ct.py
    python examples/ct.py --views 90 --noise 0.02
    python examples/ct.py --size 256 --batch A=16 --devices cuda:0,cuda:1

Exit status: 0, or 1 if whole and split differ by more than rounding or total variation is not
clearly better than filtered back projection, or 2 for input that cannot be used, or 130 if it was
interrupted.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from demo_interrupt import end_in_one_line

if __name__ == "__main__":  # torch takes seconds to import
    signal.signal(signal.SIGINT, end_in_one_line)

import torch
from ct_report import JSON, PICTURE, Report, print_table, write_files
from demo_input import (
    BadInput,
    check_range,
    is_out_of_memory,
    parse_batch,
    parse_devices,
    refuse,
)
from demo_measure import measured
from demo_output import output_folder
from torch import Tensor

from torchlinops import NamedLinop, SplitError, batched
from torchlinops.alg import admm, box, fista, group_soft_threshold, operator_norm
from torchlinops.imaging import Gradient, ParallelBeam, fbp, phantoms

GRID = ("Nx", "Ny")


def least_squares(A: NamedLinop, y: Tensor, step: float, iterations: int, title: str) -> Tensor:
    """Return the image after some steps towards the x >= 0 that minimises |A x - y|^2 / 2.

    Fewer steps mean less noise and less detail. Conjugate gradients would need fewer, but in single
    precision pass on, much enlarged, what A rounds: too much to compare whole and split by it.
    """
    bar = {"desc": f"FISTA {title}", "file": sys.stdout, "ncols": 80}
    return fista(A, y, box(0), max_num_iters=iterations, tol=0, step=step, tqdm_kwargs=bar)


def total_variation(A: ParallelBeam, y: Tensor, weight: float, iterations: int) -> Tensor:
    """Return the x that minimises |A x - y|^2 / 2 + w sum_n |(G x)_n|, nearly.

    ``weight`` is w, relative to the largest pixel of A^H y.
    """
    G = Gradient(GRID, A.grid_size, boundary="replicate")
    penalty = group_soft_threshold(weight * float(A.H(y).abs().max()))
    bar = {"desc": "ADMM total variation", "file": sys.stdout, "ncols": 80}
    return admm(
        A,
        y,
        penalty,
        G,
        max_num_iters=iterations,
        rho=20.0,
        eps_rel=0,
        max_cg_iters=4,
        tqdm_kwargs=bar,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = parse(arguments)
    try:
        check(options)
        devices = parse_devices(options.devices)
        sizes = parse_batch(options.batch, "A=8")
        A = scanner(options.size, options.views).to(devices[0])
        split = batched(A, sizes, devices)
        with output_folder(options.output, (JSON, PICTURE)):
            return run(A, split, devices, options)
    except BadInput as error:
        return refuse("ct", str(error))
    except SplitError as error:
        return refuse("ct", f"--batch: {error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return refuse(
            "ct",
            "there is not enough memory: give a smaller --size, fewer --views, smaller tiles in "
            f"--batch or other --devices ({error})",
        )


def scanner(size: int, views: int) -> ParallelBeam:
    """Return the rays: views over half a circle, detectors over the diagonal of the image."""
    return ParallelBeam(torch.arange(views) * (math.pi / views), math.ceil(1.45 * size), size)


def scan(A: ParallelBeam, noise: float, seed: int) -> Tensor:
    """Return the sinogram (A, D) of the head, with noise relative to its largest value."""
    angles = A.angles.cpu()
    clean = phantoms.shepp_logan_sinogram(angles, A.n_detectors, A.grid_size)
    random = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    return (clean + noise * float(clean.max()) * random).to(A.angles.device)


def head(size: int) -> Tensor:
    """Return what an image of the head should show: the mean of 3 x 3 points in each pixel."""
    fine = phantoms.shepp_logan([3 * size, 3 * size])
    if size % 2 == 0:  # index N // 2 is the centre; of an odd N it is the middle
        fine = fine.roll((1, 1), (0, 1))
    return fine.view(size, 3, size, 3).mean((1, 3))


def run(
    A: ParallelBeam,
    in_tiles: NamedLinop,
    devices: list[torch.device],
    options: argparse.Namespace,
) -> int:
    """Reconstruct, write what was found and return the exit status."""
    print(f"simulated   head of {options.size} x {options.size} pixels, closed form")
    print(f"scan        {options.views} views of {A.n_detectors} rays; seed {options.seed}")
    print(f"operator    {A.signature}")
    print(f"split       {options.batch} on {', '.join(map(str, devices))}\n")
    reference = head(options.size).to(devices[0])
    y = scan(A, options.noise, options.seed)
    for operator in (A, in_tiles):  # thread pools are made before the clock runs
        operator.N(operator.H(y))
    steps = options.iterations
    start = torch.ones_like(reference)  # which all rays see: near to where the norm is reached
    step = 0.9 / float(operator_norm(A, start)) ** 2
    runs = {
        "filtered back projection": measured(lambda: fbp(y, A, "hann"), devices),
        "least squares": measured(lambda: least_squares(A, y, step, steps, "whole"), devices),
        "least squares, split": measured(
            lambda: least_squares(in_tiles, y, step, steps, "split"), devices
        ),
        "total variation": measured(lambda: total_variation(A, y, options.weight, steps), devices),
    }
    report = Report.of(reference, y, runs, options)
    print_table(report)
    for path in write_files(report, options.output):
        print(f"wrote {path}")
    return 0 if report.agrees and report.improves else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="ct", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    scanner = parser.add_argument_group("simulated scanner")
    scanner.add_argument("--size", type=int, default=128, help="pixels of a side (%(default)s)")
    scanner.add_argument("--views", type=int, default=32, help="number of views (%(default)s)")
    scanner.add_argument(
        "--noise",
        type=float,
        default=0.005,
        help="standard deviation, for a sinogram whose largest value is 1 (%(default)s)",
    )
    scanner.add_argument("--seed", type=int, default=0, help="of the noise (%(default)s)")
    run = parser.add_argument_group("reconstruction")
    run.add_argument("--iterations", type=int, default=25, help="of each solver (%(default)s)")
    run.add_argument(
        "--weight",
        type=float,
        default=0.001,
        help="of total variation, relative to the largest pixel of A^H y (%(default)s)",
    )
    run.add_argument("--devices", help="as in cuda:0,cuda:1 (all CUDA devices, or the CPU)")
    run.add_argument("--batch", default="A=8", help="tile sizes (%(default)s)")
    run.add_argument("--output", type=Path, default=Path("ct_output"), help="folder (%(default)s)")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> None:
    """Refuse numbers that are out of range."""
    check_range("--size", options.size, 8, 4096)
    check_range("--views", options.views, 1, 10_000)
    check_range("--noise", options.noise, 0, 1)
    check_range("--seed", options.seed, 0, 2**63 - 1)
    check_range("--iterations", options.iterations, 1, 10_000)
    check_range("--weight", options.weight, 0, 1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # an exception, so that files go
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        end_in_one_line()

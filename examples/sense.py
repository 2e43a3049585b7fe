"""Reconstruct a volume from undersampled multi-coil MRI data, whole and in tiles.

The scanner is a chain of named-dimension operators: coil sensitivity maps, a Fourier transform
and a sampling pattern (SENSE: Pruessmann et al., Magnetic Resonance in Medicine 42, 1999).
Conjugate gradients solve its normal equations twice: with the operator as it is, and with the
operator split over coils and slices onto the devices there are. Both results, what they cost and
how far they are apart go into a table, a picture and a JSON file. The samples are on spokes, where
the work of the whole operator needs memory that tiles save. On a grid (``--trajectory cartesian``)
there is little to save, because the whole operator already works slice by slice. With
``--regularize`` the image is that of a penalised problem: total variation by ADMM, or wavelets by
FISTA.

    python examples/sense.py
    python examples/sense.py --batch C=4,Nz=8 --devices cuda:0,cuda:1
    python examples/sense.py --image volume.nii.gz --acceleration 6
    python examples/sense.py --trajectory cartesian --regularize tv
    python examples/sense.py --kspace kspace.npy --maps maps.npy --mask mask.npy

Exit status: 0, or 1 if whole and split differ by more than rounding or are not clearly better
than the zero-filled image, or 2 for input that cannot be used, or 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from demo_interrupt import end_in_one_line

if __name__ == "__main__":  # torch takes seconds to import
    signal.signal(signal.SIGINT, end_in_one_line)

import torch
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
from sense_data import Scan, load_scan, simulated_scan
from sense_report import JSON, PICTURE, Report, print_table, write_files
from torch import Tensor

from torchlinops import (
    FFT,
    NUFFT,
    Dense,
    Gradient,
    NamedLinop,
    Sampling,
    SplitError,
    Wavelet,
    batched,
)
from torchlinops.alg import (
    admm,
    conjugate_gradients,
    fista,
    group_soft_threshold,
    in_basis,
    soft_threshold,
)

GRID = ("Nx", "Ny")


def sense_operator(maps: Tensor, mask: Tensor, locs: Tensor | None = None) -> NamedLinop:
    """Return A = M F S, from an image (Nz, Nx, Ny) to its samples (C, Nz, K).

    With locations M F is a non-uniform Fourier transform.

    Parameters
    ----------
    maps : Tensor
        Coil sensitivity maps, shape (C, Nz, Nx, Ny).
    mask : Tensor
        Sampled points of the centred k-space grid, shape (Nx, Ny).
    locs : Tensor, optional
        Sampled locations that are not on the grid, shape (K, 2), instead of the mask.
    """
    S = Dense(maps, ("C", "Nz", "Nx", "Ny"), ("Nz", "Nx", "Ny"), ("C", "Nz", "Nx", "Ny"))
    if locs is not None:
        return NUFFT(locs, maps.shape[-2:], ("K",), tol=1e-3, toeplitz=True) @ S
    F = FFT(2, centered=True)
    M = Sampling.from_mask(mask)
    return M @ F @ S


def reconstruct(A: NamedLinop, y: Tensor, options: argparse.Namespace, title: str) -> Tensor:
    """Return the image after some steps towards the solution.

    That of A^H A x = A^H y, or with a penalty g the x that minimises |A x - y|^2 / 2 + g(x).
    """
    method = {"none": "CG", "tv": "ADMM", "wavelet": "FISTA"}[options.regularize]
    bar = {"desc": f"{method} {title}", "file": sys.stdout, "ncols": 80}
    steps, seen = options.iterations, A.H(y)
    if options.regularize == "none":
        return conjugate_gradients(A.N, seen, max_num_iters=steps, gtol=0, ltol=0, tqdm_kwargs=bar)
    weight, size = options.weight * float(seen.abs().max()), seen.shape[-2:]
    if options.regularize == "tv":  # isotropic, of each slice
        G = Gradient(GRID, size, boundary="replicate")
        flat = group_soft_threshold(weight)
        # A rho that is fixed, so that rounding cannot part the steps of whole and split.
        return admm(
            A,
            y,
            flat,
            G,
            max_num_iters=steps,
            rho=0.05,
            is_rho_fixed=True,
            eps_rel=0,
            max_cg_iters=5,
            tqdm_kwargs=bar,
        )
    W = wavelet(size)
    weights = torch.full(size, weight, device=y.device)
    weights[tuple(slice(n >> W.n_levels) for n in size)] = 0  # approximations are not sparse
    sparse = in_basis(W, soft_threshold(weights))
    return fista(A, y, sparse, max_num_iters=steps, tol=0, tqdm_kwargs=bar)


def wavelet(size: Sequence[int]) -> Wavelet:
    """Return the wavelet transform of slices of that size."""
    levels = (5, 4, 3, 2, 1)  # the basis must be unitary: no zeros may be appended
    n_levels = next((n for n in levels if all(s % 2**n == 0 and s >= 7 * 2**n for s in size)), 0)
    if n_levels == 0:
        raise BadInput(
            "--regularize wavelet: slices must have an even number of pixels along both axes, 14 "
            f"or more, got {size[0]} x {size[1]}"
        )
    return Wavelet("db4", GRID, size, n_levels)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = parse(arguments)
    try:
        devices = parse_devices(options.devices)
        sizes = parse_batch(options.batch)
        scan = load(options).to(devices[0])
        check_range("--weight", options.weight, 0, 1)
        if options.regularize == "wavelet":
            wavelet(scan.mask.shape)
        A = sense_operator(scan.maps, scan.mask, scan.locs)
        split = batched(A, sizes, devices)
        with output_folder(options.output, (JSON, PICTURE)):
            return run(A, split, scan, devices, options)
    except BadInput as error:
        return refuse("sense", str(error))
    except SplitError as error:
        return refuse("sense", f"--batch: {error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return refuse(
            "sense",
            "there is not enough memory: give a smaller volume, fewer --coils, smaller tiles "
            f"in --batch or other --devices ({error})",
        )


def run(
    A: NamedLinop,
    in_tiles: NamedLinop,
    scan: Scan,
    devices: list[torch.device],
    options: argparse.Namespace,
) -> int:
    """Reconstruct whole and split, write what was found and return the exit status."""
    print(scan.description)
    print(f"operator    {A.signature}")
    print(f"split       {options.batch} on {', '.join(map(str, devices))}")
    penalty = {"none": "none", "tv": "total variation", "wavelet": "wavelet coefficients"}
    print(f"penalty     {penalty[options.regularize]}\n")
    y = scan.samples(A)
    for operator in (A, in_tiles):  # thread pools and FFT plans are made before the clock runs
        operator.N(operator.H(y))
    whole = measured(lambda: reconstruct(A, y, options, "whole"), devices)
    split = measured(lambda: reconstruct(in_tiles, y, options, "split"), devices)

    report = Report.of(A, y, scan, whole, split, options.iterations, options.regularize)
    print_table(report)
    for path in write_files(report, options.output):
        print(f"wrote {path}")
    return 0 if report.agrees and report.improves else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="sense", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    source = parser.add_argument_group("data, instead of nibabel's example volume")
    source.add_argument(
        "--image", type=Path, help="image volume to scan: .nii, .nii.gz, or .npy of (Nz, Nx, Ny)"
    )
    source.add_argument(
        "--kspace", type=Path, help="measured k-space, centred: .npy of (C, Nz, Nx, Ny)"
    )
    source.add_argument("--maps", type=Path, help="coil maps, .npy of the shape of --kspace")
    source.add_argument("--mask", type=Path, help="sampled points, .npy of (Nx, Ny)")
    scanner = parser.add_argument_group("simulated scanner")
    scanner.add_argument("--coils", type=int, default=8, help="number of coils (%(default)s)")
    scanner.add_argument(
        "--acceleration", type=float, default=4.0, help="grid points per sample (%(default)s)"
    )
    scanner.add_argument(
        "--trajectory",
        choices=("cartesian", "radial", "spiral"),
        help="where in k-space the samples are (radial; cartesian for --kspace)",
    )
    scanner.add_argument(
        "--noise",
        type=float,
        default=0.005,
        help="standard deviation, for an image whose largest pixel is 1 (%(default)s)",
    )
    scanner.add_argument("--seed", type=int, default=0, help="of maps, mask, noise (%(default)s)")
    run = parser.add_argument_group("reconstruction")
    run.add_argument(
        "--regularize",
        choices=("none", "tv", "wavelet"),
        default="none",
        help="by CG, by ADMM with total variation, by FISTA with wavelets (%(default)s)",
    )
    run.add_argument(
        "--weight",
        type=float,
        default=0.002,
        help="of the penalty, relative to the largest pixel of A^H y (%(default)s)",
    )
    run.add_argument("--iterations", type=int, default=10, help="of the solver (%(default)s)")
    run.add_argument("--devices", help="as in cuda:0,cuda:1 (all CUDA devices, or the CPU)")
    run.add_argument("--batch", default="C=2,Nz=4", help="tile sizes (%(default)s)")
    run.add_argument(
        "--output", type=Path, default=Path("sense_output"), help="folder (%(default)s)"
    )
    return parser.parse_args(arguments)


def load(options: argparse.Namespace) -> Scan:
    """Return the scan that the options describe."""
    measured_files = (options.kspace, options.maps, options.mask)
    check_range("--iterations", options.iterations, 1, 10_000)
    if any(measured_files):
        if not all(measured_files):
            raise BadInput("--kspace, --maps and --mask must be given together")
        if options.image:
            raise BadInput("--image and --kspace must not be given together")
        if options.trajectory not in (None, "cartesian"):
            raise BadInput(
                "--trajectory must be cartesian for --kspace, which is on a grid, got "
                f"{options.trajectory}"
            )
        return load_scan(*measured_files)
    return simulated_scan(
        options.image,
        options.coils,
        options.acceleration,
        options.noise,
        options.seed,
        options.trajectory or "radial",
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # an exception, so that files go
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        end_in_one_line()

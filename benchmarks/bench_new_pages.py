"""What new pages of memory cost: each way in new processes, as a first user meets it.

A process that has freed large tensors keeps memory, so the ways must not share one. Pages are
those that the system hands out during a call; the C library is glibc.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from by_hand import sense_normal
from results import record
from torch import Tensor
from torch.fft import fftn, ifftn, ifftshift

from linops_core import FFT, Convolution, Dense, Diagonal, NamedLinop, Sampling
from linops_solvers import admm, conjugate_gradients, fista, pdhg, soft_threshold
from torchlinops import NUFFT, BatchSpec, batch_linop, create_batched_linop

C, N = 8, 256
GRID = (-2, -1)
ROUNDS, CALLS = 2, 8
KEPT = {
    "thresholds": {
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "134217728",
    },
    "top pad": {"MALLOC_TOP_PAD_": "67108864"},
    "huge pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    generator = torch.Generator().manual_seed(len(lengths))
    return torch.randn(lengths, dtype=torch.complex64, generator=generator)


def in_place(maps: Tensor, image: Tensor, mask: Tensor) -> Tensor:
    """Return the SENSE normal coil by coil, by hand: mask as the transform has it."""
    y = torch.zeros_like(image)
    for each in maps:
        kspace = fftn(each * image, dim=GRID, norm="ortho")
        kspace.mul_(mask)
        y.addcmul_(each.conj(), ifftn(kspace, dim=GRID, norm="ortho"))
    return y


def ways() -> dict[str, Callable[[], Callable[[], object]]]:
    """Return by name what makes a job."""
    maps, image = random(C, N, N), random(N, N)
    mask = torch.rand((N, N), generator=torch.Generator().manual_seed(0)) < 0.25
    shifted = ifftshift(mask).to(image.dtype)
    dims = ("C", "Nx", "Ny")
    S = Dense(maps, dims, dims[1:], dims)

    def masked() -> NamedLinop:
        return Diagonal(shifted, ("Kx", "Ky")) @ FFT(2) @ S

    def sampled() -> NamedLinop:
        return Sampling.from_mask(mask) @ FFT(2, centered=True) @ S

    def radial() -> NamedLinop:
        points = (torch.rand((32 * N, 2), generator=torch.Generator().manual_seed(0)) - 0.5) * N
        return NUFFT(points, (N, N), ("K",), batch_shape=("C",)) @ S

    def solver(solve: Callable[[NamedLinop, Tensor], object]) -> Callable[[], object]:
        A = sampled()
        return partial(solve, A, A(image))

    return {
        "by hand": lambda: partial(sense_normal, maps, image, mask),
        "by hand, in place": lambda: partial(in_place, maps, image, shifted),
        "A.N with a mask": lambda: partial(masked().N, image),
        "A.N with a Sampling": lambda: partial(sampled().N, image),
        "A with a mask": lambda: partial(masked(), image),
        "A.H with a mask": lambda: partial(masked().H, random(C, N, N)),
        "batch_linop, C: 1": lambda: partial(batch_linop(masked(), {"C": 1}).N, image),
        "BatchSpec, C: 1": lambda: partial(
            create_batched_linop(masked(), BatchSpec({"C": 1})).N, image
        ),
        "NUFFT, A.N": lambda: partial(radial().N, image),
        "Convolution.N": lambda: partial(Convolution(random(15, 15), dims=("Nx", "Ny")).N, maps),
        "10 steps of CG": lambda: solver(
            lambda A, y: conjugate_gradients(A.N, A.H(y), max_num_iters=10, gtol=0, ltol=0)
        ),
        "10 steps of FISTA": lambda: solver(
            lambda A, y: fista(A, y, soft_threshold(1e-3), max_num_iters=10, tol=0)
        ),
        "10 steps of PDHG": lambda: solver(
            lambda A, y: pdhg(A, soft_threshold(1.0), soft_threshold(1e-3), image, 10, eps_rel=0)
        ),
        "2 steps of ADMM": lambda: solver(
            lambda A, y: admm(A, y, soft_threshold(1e-3), max_num_iters=2, eps_rel=0)
        ),
    }


def measured(name: str) -> tuple[list[float], float]:
    """Return seconds of calls in this process, and new pages of a call."""
    work = ways()[name]()
    work()
    seconds, pages = [], []
    for _ in range(CALLS):
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
        pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return seconds, statistics.median(pages)


def main() -> None:
    """Run all ways in turns, each in a process of its own."""
    jobs = [(name, "") for name in ways()] + [("by hand", variables) for variables in KEPT]
    result: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    for _ in range(ROUNDS):
        for job in jobs:
            child = subprocess.run(
                [sys.executable, __file__, job[0]],
                env={**plain, **KEPT.get(job[1], {})},
                check=True,
                capture_output=True,
                text=True,
            )
            seconds, pages = json.loads(child.stdout)
            own = result.setdefault(job, ([], []))
            own[0].extend(seconds)
            own[1].append(pages)
    title = f"New pages, {C} coils of {N} x {N}, {torch.get_num_threads()} threads"
    print(title)
    first = result[jobs[0]][0]
    for (name, variables), (seconds, counts) in result.items():
        ratio = statistics.median(seconds) / statistics.median(first)
        least, label = min(seconds) / min(first), f"{name} {variables}".strip()
        record(title, label, ratio, "x", seconds=statistics.median(seconds), least=least)
        print(
            f"  {label:28} {statistics.median(seconds) * 1e3:8.2f} ms, {ratio:.2f} of by hand "
            f"({least:.2f} of minima), {statistics.median(counts):6.0f} new pages"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1])))
    else:
        main()

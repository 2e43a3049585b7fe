"""Ranks of gloo on one machine: latency, bandwidth, and what the cost model makes of them.

Latency and bandwidth are measured with two ranks, the bytes per second that operations read and
write with one. From these three numbers the normal of an MRI scanner, whose coils are cut, is
predicted for other numbers of ranks, and measured where there are so many. The mark that goes with
each sum is timed as well. Ranks beyond the number of cores share cores: what they compute is
predicted to take as much longer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from results import record
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from linops_core import FFT, Dense, NamedLinop
from linops_distributed import Link, distribute_linop, plan_mesh

N_COILS, SIDE, N_CALLS = 32, 192, 15
LARGE = 2**22  # numbers of float32


def sense() -> NamedLinop:
    """Return (Nx, Ny) -> (C, Kx, Ky)."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(N_COILS, SIDE, SIDE, dtype=torch.complex64, generator=generator)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    return FFT(2, batch_shape=("C",)) @ S


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of a call; ranks meet before each."""
    times = []
    for _ in range(N_CALLS):
        dist.barrier()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def on_ranks() -> None:
    """Measure on the ranks that torchrun has started; the first prints."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    n_ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (n_ranks,), mesh_dim_names=("r",))
    small, large = torch.zeros(1), torch.zeros(LARGE)
    A = distribute_linop(sense(), mesh, {"C": "r"})
    x = torch.ones(SIDE, SIDE, dtype=torch.complex64)
    numbers = torch.zeros(4, dtype=torch.float64)
    result = {}
    with torch.no_grad():
        torch.testing.assert_close(A.N(x), sense().N(x), rtol=1e-3, atol=1e-3 * N_COILS)
        result["normal"] = seconds(lambda: A.N(x))
        if n_ranks > 1:
            result["small"] = seconds(lambda: dist.all_reduce(small))
            result["large"] = seconds(lambda: dist.all_reduce(large))
            result["bare sum"] = seconds(lambda: dist.all_reduce(numbers))
            result["marked sum"] = seconds(lambda: A.ranks.sum(numbers, ("r",), "A", "numbers"))
    if dist.get_rank() == 0:
        json.dump(result, sys.stdout)
    dist.destroy_process_group()


def measured(n_ranks: int) -> dict[str, float]:
    """Return what is measured with as many ranks."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*run, f"--nproc-per-node={n_ranks}", __file__, "--ranks"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def touched(like: Tensor) -> float:
    """Return the bytes that operations read and write in the normal on one rank."""
    plan = plan_mesh(sense(), {"r": 1}, {"C": "r"}, like=like)
    return plan.seconds("normal", Link(0.0, 1.0), memory_bandwidth=1.0)


def main() -> None:
    """Print what was measured, and predictions beside it."""
    x = torch.ones(SIDE, SIDE, dtype=torch.complex64)
    times = {n: measured(n) for n in (1, 2, 3, 4)}
    latency = times[2]["small"] / 2  # a ring of two: two messages, one after the other
    bandwidth = 4 * LARGE / times[2]["large"]
    memory = touched(x) / times[1]["normal"]
    print(
        f"{os.cpu_count()} cores; latency {latency * 1e6:.0f} us, "
        f"bandwidth {bandwidth / 1e9:.2f} GB/s"
    )
    print(f"operations read and write {memory / 1e9:.2f} GB/s on one rank")
    title = "Ranks of gloo"
    record(title, "latency", latency * 1e6, "us")
    record(title, "bandwidth", bandwidth / 1e9, "GB/s")
    mark = times[2]["marked sum"] / times[2]["bare sum"]
    print(f"a sum of 4 numbers with the mark of its step: {mark:.2f}x of one without")
    record(title, "a sum of 4 numbers, with its mark", mark, "x", against="all_reduce")

    title = f"The normal of SENSE, {N_COILS} coils of {SIDE} x {SIDE}, coils cut"
    print(f"\n{title}, in ms")
    print("ranks   gloo, predicted   measured   predicted of a cluster: 20 us, 10 GB/s, trees")
    for n in (1, 2, 3, 4, 8, 32, 128, 1024):
        plan = plan_mesh(sense(), {"r": n}, {"C": "r"}, like=x)
        own_memory = memory * min(1.0, (os.cpu_count() or 1) / n) if n in times else memory
        gloo = plan.seconds("normal", Link(latency, bandwidth, is_ring=True), own_memory)
        cluster = plan.seconds("normal", Link(20e-6, 10e9), memory)
        own = times[n]["normal"] if n in times else None
        text = f"{own * 1e3:8.2f}" if own is not None else "       -"
        print(f"{n:5} {gloo * 1e3:17.2f} {text:>10} {cluster * 1e3:20.2f}")
        if own is not None:
            record(title, f"{n} ranks", own / gloo, "x", against="the prediction", seconds=own)


if __name__ == "__main__":
    on_ranks() if "--ranks" in sys.argv else main()

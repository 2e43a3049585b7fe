"""Cutting operators into tiles, and working tile by tile, against loops written by hand."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, TypeAlias

import torch
from interleaved import interleaved, print_timings
from results import record
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling
from linops_split import batch_linop, plan_batches, split_linop

Work: TypeAlias = Callable[[], object]

C, N = 8, 256
SIDE = 64
N_TILES = SIDE * SIDE
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, dtype=torch.complex64, generator=GENERATOR)


def check(found: Tensor, wanted: Tensor, name: str) -> None:
    """Compare two results of some thousand operations in single precision."""
    torch.testing.assert_close(
        found, wanted, rtol=1e-3, atol=1e-3, msg=lambda text: f"{name}: {text}"
    )


def allocated(work: Work) -> int:
    """Return the most bytes that torch's allocator hands out at a time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    results: Any = profiler.profiler.kineto_results
    now = highest = 0
    for _, nbytes in sorted(allocations(results.experimental_event_tree())):
        now += nbytes
        highest = max(highest, now)
    return highest


def allocations(events: list[Any]) -> Iterator[tuple[int, int]]:
    """Yield the time and the bytes of each allocation; fewer than none where it is freed."""
    for event in events:
        if hasattr(event.extra_fields, "alloc_size"):
            yield event.start_time_ns, event.extra_fields.alloc_size
        yield from allocations(event.children)


def cutting() -> None:
    """Time the cutting into tiles of one element, per tile and operator."""
    D = Dense(random(SIDE, SIDE))
    A = Dense(random(5, SIDE), ("K", "M")) @ D
    title = f"Cutting into {N_TILES} tiles, per tile and operator"
    print(f"\n{title}")
    for name, linop, n_operators in (("Dense", D, 1), ("chain of two", A, 2)):
        cut = partial(split_linop, linop, {"M": 1, "N": 1})
        assert cut()[0].size == N_TILES
        times = [each / N_TILES / n_operators * 1e6 for each in timeit.repeat(cut, number=1)]
        record(title, name, median(times), "us", low=min(times), high=max(times), target=10)
        print(f"  {name:44} {min(times):7.2f} us at least, {median(times):7.2f} in the median")


def small_tiles() -> None:
    """Time operators in tiles that take no time, so that what counts is the time between."""
    matrix, x, w = random(N_TILES, 16), random(16), random(N_TILES, 16)
    rows, v = random(N_TILES, 16), random(N_TILES)
    M, D = Dense(matrix), Diagonal(w, ("C", "N"))
    R = Dense(rows, ("N", "K"), ("N",), ("K",))
    S = Dense(w, ("C", "N"), ("N",), ("C", "N"))

    def concatenated() -> Tensor:
        y = x.new_empty(N_TILES)
        for m in range(N_TILES):
            y[m : m + 1] = matrix[m : m + 1] @ x
        return y

    def multiplied() -> Tensor:
        y = torch.empty_like(matrix)
        for c in range(N_TILES):
            y[c : c + 1] = w[c : c + 1] * matrix[c : c + 1]
        return y

    def added() -> Tensor:
        y = x.new_zeros(16)
        for n in range(N_TILES):
            y += v[n : n + 1] @ rows[n : n + 1]
        return y

    def chained() -> Tensor:
        y = torch.empty_like(matrix)
        for c in range(N_TILES):
            y[c : c + 1] = matrix[c : c + 1] * (w[c : c + 1] * x)
        return y

    jobs: dict[str, tuple[NamedLinop, str, Tensor, Callable[[], Tensor]]] = {
        "rows of a Dense": (M, "M", x, concatenated),
        "columns of a Dense, added": (R, "N", v, added),
        "slices of a Diagonal": (D, "C", matrix, multiplied),
        "a chain of two, as coils": (Diagonal(matrix, ("C", "N")) @ S, "C", x, chained),
    }
    for name, (linop, dim, y, by_hand) in jobs.items():
        batched = batch_linop(linop, {dim: 1})
        check(batched(y), by_hand(), name)
        ways: dict[str, Work] = {"a loop by hand": by_hand, "in tiles": partial(batched, y)}
        timings = interleaved(ways, rounds=31)
        print_timings(f"{name}, {N_TILES} tiles", timings, {"in tiles": 1.3})


def sense() -> None:
    """Time the SENSE normal operator coil by coil."""
    maps, image = random(C, N, N), random(N, N)
    mask = (torch.rand((N, N), generator=GENERATOR) < 0.25).to(torch.float32)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Diagonal(mask, ("...", "Kx", "Ky")) @ FFT(2) @ S
    batched = batch_linop(A, {"C": 1})
    check(batched.N(image), A.N(image), "SENSE")

    def by_hand() -> Tensor:
        total = torch.zeros_like(image)
        for one in maps:
            kspace = torch.fft.fftn(one * image, norm="ortho").mul_(mask)
            total += torch.fft.ifftn(kspace, norm="ortho").mul_(one.conj())
        return total

    check(by_hand(), A.N(image), "SENSE by hand")
    ways: dict[str, Work] = {
        "whole": partial(A.N, image),
        "coil by coil": partial(batched.N, image),
        "coil by coil, by hand": by_hand,
    }
    title = f"SENSE normal, {C} coils, {N} x {N}"
    print_timings(title, interleaved(ways, rounds=31), {"coil by coil": 1.1})
    for name, work in ways.items():
        extra = (allocated(work) - image.nbytes) / 2**20
        target = 2.5 if name == "coil by coil" else None
        record(f"{title}: workspace beside the result", name, extra, "MiB", target=target)
        print(f"  {name:44} {extra:10.2f} MiB of workspace beside the result")


def planning() -> None:
    """Time the planning of batch sizes, and compare what it predicts with what is allocated."""
    maps = random(C, N, N)
    mask = torch.rand((N, N), generator=GENERATOR) < 0.25
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Sampling.from_mask(mask) @ FFT(2, centered=True) @ S
    inputs = {
        "forward": random(N, N),
        "adjoint": random(C, int(mask.sum())),
        "normal": random(N, N),
    }
    plan_batches(A, 2**40)  # which imports what torch needs for it
    title = f"Planning SENSE, {C} coils, {N} x {N}: the peak that a plan predicts"
    print(f"\n{title}")
    for work, x in inputs.items():
        for share in (1.0, 0.5, 0.3):
            budget = int(share * plan_batches(A, 2**40, work=work).peak)
            start = time.perf_counter()
            plan = plan_batches(A, budget, work=work)
            elapsed = time.perf_counter() - start
            batched = batch_linop(A, plan.batch_sizes)
            run = {"forward": batched, "adjoint": batched.H, "normal": batched.N}[work]
            run(x)
            ratio = plan.peak / allocated(partial(run, x))
            what = f"{work}, budget of {share:g} of the whole"
            against = "what is allocated"
            record(title, what, ratio, "x", against=against, seconds=elapsed, target=1.15)
            print(f"  {elapsed * 1e3:7.0f} ms, {ratio:5.3f} of what is allocated: {plan}")


def main() -> None:
    """Run all parts, without autograd."""
    torch.set_num_threads(1)  # cores are shared
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread")
    with torch.no_grad():
        cutting()
        small_tiles()
        sense()
        planning()


if __name__ == "__main__":
    main()

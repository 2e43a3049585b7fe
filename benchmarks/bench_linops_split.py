"""Work tile by tile against loops written by hand, and plans against what is allocated."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import torch
from interleaved import interleaved, print_timings
from results import record
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling
from linops_imaging import NUFFT
from linops_split import SplitError, batch_linop, plan_batches

Work: TypeAlias = Callable[[], object]

C, N = 8, 256
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, dtype=torch.complex64, generator=GENERATOR)


def check(result: Tensor, wanted: Tensor, name: str) -> None:
    """Compare two results of some thousand operations in single precision."""
    torch.testing.assert_close(
        result, wanted, rtol=1e-3, atol=1e-3, msg=lambda text: f"{name}: {text}"
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
        for name, budget in {"any budget": 2**40, "the least": least(A, work)}.items():
            start = time.perf_counter()
            plan = plan_batches(A, budget, work=work)
            elapsed = time.perf_counter() - start
            # The first call, which a plan predicts: later ones may take less.
            batched = batch_linop(copy.deepcopy(A), plan.batch_sizes)
            run = {"forward": batched, "adjoint": batched.H, "normal": batched.N}[work]
            ratio = plan.peak / allocated(partial(run, x))
            what = f"{work}, {name}"
            against = "what is allocated"
            record(title, what, ratio, "x", against=against, seconds=elapsed, target=1.15)
            print(f"  {elapsed * 1e3:7.0f} ms, {ratio:5.3f} of what is allocated: {plan}")


def planning_of_frames() -> None:
    """Compare the processor time of plans of 20 frames of NUFFT SENSE with that of one ``A.N``."""
    n = 128
    maps, x = random(8, n, n), random(20, n, n)
    S = Dense(maps, ("C", "Nx", "Ny"), ("T", "Nx", "Ny"), ("C", "T", "Nx", "Ny"))
    locs = n * (torch.rand(20, 13, n, 2, generator=GENERATOR) - 0.5)
    A = NUFFT(locs, (n, n), ("T", "Spoke", "Readout"), batch_shape=("C", "T"), tol=1e-3) @ S
    plan_batches(A, 2**40)
    one = least_seconds(partial(A.N, x))
    title = "Planning 20 frames of NUFFT SENSE, 8 coils, 128 x 128"
    print(f"\n{title}: one A.N takes {one * 1e3:.0f} ms")
    budgets = {"uncut": 2**40, "cut": 40_000_000, "refused": 5_000_000}
    for (what, budget), work in product(budgets.items(), ("forward", "normal")):
        seconds = least_seconds(partial(least_or_plan, A, budget, work))
        record(title, f"{what}, {work}", seconds / one, "x", against="one A.N", seconds=seconds)
        print(f"  {what}, {work}: {seconds:.3f} s, {seconds / one:.1f} applications")


def least_seconds(work: Work) -> float:
    """Return the least processor time of three runs."""
    results = []
    for _ in range(3):
        start = time.process_time()
        work()
        results.append(time.process_time() - start)
    return min(results)


def least_or_plan(A: NamedLinop, budget: int, work: str) -> None:
    """Plan, whether or not there is a plan for the budget."""
    with suppress(SplitError):
        plan_batches(A, budget, work=work)


def least(A: NamedLinop, work: str) -> int:
    """Return the smallest budget for which there is a plan: the error of a smaller one names it."""
    try:
        return plan_batches(A, 1, work=work).peak
    except SplitError as error:
        return int(str(error).split("at least ")[1].split(" bytes")[0])


def main() -> None:
    """Run all parts, without autograd."""
    torch.set_num_threads(1)  # cores are shared
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread")
    with torch.no_grad():
        sense()
        planning()
        planning_of_frames()


if __name__ == "__main__":
    main()

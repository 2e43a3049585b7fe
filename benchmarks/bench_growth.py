"""How the time of work with operators grows with their number of parts: exponents, 10 to 10,000.

``bench_growth.py [SUBJECT ...]`` measures some of the subjects alone. Times are those of the
processor, which other programs change least.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
from results import record
from torch import Tensor

from linops_core import (
    Add,
    BlockDiag,
    Chain,
    Concat,
    Dense,
    Diagonal,
    HStack,
    NamedLinop,
    Stack,
    VStack,
)
from linops_distributed import plan_mesh
from linops_multigpu import BatchSpec, create_batched_linop
from linops_split import batch_linop, plan_batches, split_linop
from memmap import ModuleMemoryMap, memory_aware_deepcopy

Make: TypeAlias = Callable[[], NamedLinop]
Cut: TypeAlias = Mapping[str, int]
Job: TypeAlias = Callable[[NamedLinop, Cut], object]
Prepared: TypeAlias = Callable[[int], Callable[[], object]]

NUMBERS = (10, 32, 100, 316, 1000, 3162, 10_000)
FITTED_FROM = 316
"""The upper half of the numbers, on a logarithmic axis."""
LONGEST = 4.0
"""Seconds after which no larger number is tried."""
TARGET = 1.1
N = 4
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, generator=GENERATOR) / N


def diagonals(number: int) -> list[NamedLinop]:
    """Return operators with weights of their own."""
    return [Diagonal(weight, ("N",)) for weight in random(number, N)]


def matrices(number: int) -> list[NamedLinop]:
    """Return batches of matrices that fit one after another."""
    names = ("M", "N")
    made: list[NamedLinop] = []
    for i, weight in enumerate(random(number, N, N, N)):
        row, column = names[i % 2], names[i % 2 - 1]
        made.append(Dense(weight, ("B", row, column), ("B", column), ("B", row)))
    return made


def rows(number: int) -> list[NamedLinop]:
    """Return matrices of one row each."""
    return [Dense(weight, ("M", "N"), ("N",), ("M",)) for weight in random(number, 1, N)]


SUBJECTS: dict[str, Callable[[int], tuple[Make, Cut]]] = {
    "terms of an Add": lambda n: (partial(Add, *diagonals(n)), {"N": 2}),
    "operators of a Chain": lambda n: (partial(Chain, *matrices(n)), {"B": 2}),
    "operands of a Concat": lambda n: (partial(Concat, *rows(n), odim="M"), {"N": 2}),
    "operands of a Stack": lambda n: (
        partial(Stack, *diagonals(n), odim_and_idx=("S", 0)),
        {"N": 2},
    ),
    "operands of a VStack": lambda n: (partial(VStack, *diagonals(n)), {"N": 2}),
    "operands of an HStack": lambda n: (partial(HStack, *diagonals(n)), {"N": 2}),
    "operands of a BlockDiag": lambda n: (partial(BlockDiag, *diagonals(n)), {}),
    "tiles of a Dense": lambda n: (
        partial(Dense, random(n, N), ("M", "N"), ("N",), ("M",)),
        {"M": 1},
    ),
}
"""For each, given a number, how the operator is made of parts that are there, and how it is cut."""


def run(linop: NamedLinop) -> Tensor:
    """Apply the operator."""
    return linop(torch.ones([size or N for size in linop.sizes("input")]))


JOBS: dict[str, Job] = {
    "run": lambda A, _: run(A),
    "adjoint": lambda A, _: A.H,
    "normal": lambda A, _: A.N,
    "repr": lambda A, _: repr(A),
    "memory_aware_deepcopy": lambda A, _: memory_aware_deepcopy(A),
    "memory report": lambda A, _: str(ModuleMemoryMap(A).report()),
    "split_linop": split_linop,
    "batch_linop and run": lambda A, cut: run(batch_linop(A, cut)),
    "batch_linop, normal": lambda A, cut: batch_linop(A, cut).N,
    "create_batched_linop and run": lambda A, cut: run(create_batched_linop(A, BatchSpec(cut))),
    "plan_batches": lambda A, cut: plan_batches(A, 2**40, [*cut], dtype=torch.float32),
    "plan_mesh": lambda A, cut: plan_mesh(
        A, {"ranks": 2}, dict.fromkeys(cut, "ranks"), dtype=torch.float32
    ),
}


def jobs_of(name: str) -> dict[str, Prepared]:
    """Return how each job is prepared, with an operator that nothing is known of yet."""
    subject = SUBJECTS[name]

    def prepared(work: Job, number: int) -> Callable[[], object]:
        make, cut = subject(number)
        return partial(work, make(), cut)

    return {"made": lambda number: subject(number)[0]} | {
        job: partial(prepared, work) for job, work in JOBS.items()
    }


def seconds_of(prepare: Callable[[], Callable[[], object]]) -> float:
    """Return the least processor time of up to three runs, each of which is prepared anew."""
    least = math.inf
    for _ in range(3):
        work = prepare()
        gc.collect()
        gc.disable()  # it looks through all that there is, at moments of its own
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
        gc.enable()
        if least > 0.1:
            break
    return least


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of a line through the upper points on logarithmic axes."""
    upper = [point for point in points if point[0] >= FITTED_FROM]
    logs = torch.tensor(upper, dtype=torch.float64).log()
    numbers, times = (logs - logs.mean(0)).T
    return float(numbers @ times / (numbers @ numbers))


def measure(name: str) -> None:
    """Measure all jobs of one subject."""
    print(f"\n{name}")
    for job, prepare in jobs_of(name).items():
        prepare(2)()  # which imports what torch needs for it
        points: list[tuple[int, float]] = []
        for number in NUMBERS:
            points.append((number, seconds_of(partial(prepare, number))))
            if points[-1][1] > LONGEST and number > FITTED_FROM:
                break
        found = exponent(points)
        number, seconds = points[-1]
        record(name, job, found, "exponent", seconds=seconds, target=TARGET, points=points)
        print(f"  {job:32} {found:6.2f}   {seconds:8.4f} s for {number:6}", flush=True)


def main() -> None:
    """Measure the subjects that are named, by default all of them."""
    torch.set_num_threads(1)
    with torch.no_grad():
        for name in sys.argv[1:] or SUBJECTS:
            measure(name)


if __name__ == "__main__":
    main()

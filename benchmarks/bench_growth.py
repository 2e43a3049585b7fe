"""How the time of work with operators grows with their number of parts: exponents, 10 to 10,000.

``bench_growth.py [SUBJECT ...]`` measures some of the subjects alone. Times are those of the
processor, which other programs change least: the least of `ROUNDS` rounds, at each number. A plan
runs the operator without data, which takes several milliseconds for a part, so plans are measured
once at each number, and to 10,000 parts for sums and chains only.

The more parts there are, the less of them is in the cache of a processor, above all if other
programs use it, too. So if an exponent is above the target, calls of functions are counted.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from operator import add, matmul
from typing import Any, TypeAlias, TypeVar

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
from linops_core.testing._calls import n_calls
from linops_distributed import plan_mesh
from linops_multigpu import BatchSpec, create_batched_linop
from linops_split import batch_linop, plan_batches, split_linop
from memmap import ModuleMemoryMap, memory_aware_deepcopy

Make: TypeAlias = Callable[[], NamedLinop]
Cut: TypeAlias = Mapping[str, int]
Job: TypeAlias = Callable[[NamedLinop, Cut], object]
Result = TypeVar("Result")

NUMBERS = (10, 32, 100, 316, 1000, 3162, 10_000)
ROUNDS = 3
LONGEST = 15.0
"""Seconds: no number is tried that would take longer at an exponent of 1, except of `PLANNED`."""
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


def normals(number: int) -> list[NamedLinop]:
    """Return normal operators with another name in the output."""
    return [linop.N for linop in rows(number)]


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


LOOPS: dict[str, tuple[Callable[[int], Sequence[NamedLinop]], Callable[[Any, Any], Any]]] = {
    "A = A + B": (diagonals, add),
    "A = B + A": (diagonals, lambda A, B: B + A),
    "A = A @ B": (diagonals, matmul),
    "A = B @ A": (diagonals, lambda A, B: B @ A),
    "A = A @ B, with other names": (matrices, lambda A, B: B @ A),
    "A = A @ (2 * B)": (diagonals, lambda A, B: A @ (2 * B)),
    "A = A + B, of normals": (normals, add),
    "A = A @ B, of normals": (normals, matmul),
    "A = B @ A, of normals": (normals, lambda A, B: B @ A),
    "A = (A + B) @ B, a nest": (diagonals, lambda A, B: (A + B) @ B),
}
"""For each, the operators B of a loop, and its body. Each step lists all operands."""
IN_A_LOOP = "operators that are made in a loop"
LONGEST_LOOP = 1000


def run_loop(operators: Sequence[NamedLinop], body: Callable[[Any, Any], Any]) -> object:
    """Return what a loop makes."""
    made: object = reduce(body, operators)
    return made


def loop_of(name: str, number: int) -> Callable[[], object]:
    """Return a loop over a number of operators that are there."""
    operators, body = LOOPS[name]
    return partial(run_loop, operators(number), body)


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
}
PLANS: dict[str, Job] = {
    "plan_batches": lambda A, cut: plan_batches(
        A, 2**40, [*cut], work="forward", dtype=torch.float32
    ),
    "plan_mesh": lambda A, cut: plan_mesh(
        A, {"ranks": 2}, dict.fromkeys(cut, "ranks"), dtype=torch.float32
    ),
}
PLANNED = ("terms of an Add", "operators of a Chain")
"""What is planned with any number of parts."""


def jobs_of(name: str) -> list[str]:
    """Return the names of what is measured of a subject."""
    return [*LOOPS] if name == IN_A_LOOP else ["made", *JOBS, *PLANS]


def times_of(name: str, number: int, wanted: Collection[str]) -> dict[str, float]:
    """Return the seconds of some jobs: one after the other, with one new operator."""
    if name == IN_A_LOOP:
        return {loop: timed(loop_of(loop, number))[1] for loop in LOOPS if loop in wanted}
    make, cut = SUBJECTS[name](number)
    linop, seconds = timed(make)
    result = {"made": seconds}
    for job, work in (JOBS | PLANS).items():
        if job in wanted:
            result[job] = timed(partial(work, linop, cut))[1]
    return result


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result and the seconds of the processor."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def calls_of(name: str, job: str, number: int) -> int:
    """Return how many functions of Python and C a job calls."""
    work: Callable[[], object]
    if name == IN_A_LOOP:
        work = loop_of(job, number)
    else:
        make, cut = SUBJECTS[name](number)
        work = make if job == "made" else partial((JOBS | PLANS)[job], make(), cut)
    return n_calls(work)


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope on logarithmic axes: of the upper half or of the last decade, the larger."""
    last = points[-1][0]
    return max(
        slope([point for point in points if point[0] >= least]) for least in (316, last / 10)
    )


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of a line through points on logarithmic axes."""
    logs = torch.tensor(points, dtype=torch.float64).log()
    numbers, times = (logs - logs.mean(0)).T
    return float(numbers @ times / (numbers @ numbers))


def measure(name: str) -> None:
    """Measure all jobs of one subject."""
    print(f"\n{name}", flush=True)
    points: dict[str, list[tuple[int, float]]] = {job: [] for job in jobs_of(name)}
    times_of(name, 2, points)  # which imports what torch needs
    is_loop = name == IN_A_LOOP
    for number in [n for n in NUMBERS if not is_loop or n <= LONGEST_LOOP]:
        wanted = [
            job
            for job, before in points.items()
            if not before or is_short(number, before) or (job in PLANS and name in PLANNED)
        ]
        planned = [job for job in wanted if job in PLANS]
        rounds = [times_of(name, number, planned)]
        for _ in range(ROUNDS):
            gc.collect()  # which is off while work is timed
            rounds.append(times_of(name, number, [job for job in wanted if job not in PLANS]))
        gc.collect()
        for job in wanted:
            points[job].append((number, min(times[job] for times in rounds if job in times)))
    for job, of_job in points.items():
        result = exponent(of_job)
        number, seconds = of_job[-1]
        target = None if is_loop else TARGET
        record(name, job, result, "exponent", seconds=seconds, target=target, points=of_job)
        print(f"  {job:32} {result:6.2f}   {seconds:8.4f} s for {number:6}", flush=True)
        if target is not None and result > target:
            calls = slope([(number, calls_of(name, job, number)) for number in (100, 316)])
            record(name, f"{job}, calls of functions", calls, "exponent", target=TARGET)
            print(f"    calls of functions {calls:17.2f}", flush=True)


def is_short(number: int, before: Sequence[tuple[int, float]]) -> bool:
    """Whether a job would be done in time at an exponent of 1."""
    last, seconds = before[-1]
    return seconds * number / last < LONGEST


def main() -> None:
    """Measure the subjects that are named, by default all of them."""
    torch.set_num_threads(1)
    gc.disable()  # it looks through all that there is, at moments of its own
    gc.freeze()
    with torch.no_grad():
        for name in sys.argv[1:] or [IN_A_LOOP, *SUBJECTS]:
            measure(name)


if __name__ == "__main__":
    main()

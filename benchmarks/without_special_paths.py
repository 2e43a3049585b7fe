"""Whole solves with a special path of linops-solvers and without it, in turns.

Run it as ``python benchmarks/without_special_paths.py PATH SIZE``. It prints the ratios of time and
of peak memory, without over with; the table is in docs/special_paths.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from linops_core import FFT, Dense, Diagonal, Sampling
from linops_solvers import conjugate_gradients
from linops_solvers._krylov._conjugate_steps import ConjugateSteps
from linops_solvers._krylov._convergence_check import on_host
from linops_solvers._shared import _products

N_COILS, N_STEPS, N_TURNS = 8, 10, 5


def switch_off(path: str) -> None:
    """Switch off a special path."""
    if path == "steps of floats":

        def measured_each(self: ConjugateSteps, *of: Any) -> Any:
            return on_host(*self.space.measured(*of))

        patch.object(ConjugateSteps, "numbers", measured_each).start()
    else:
        patch.object(_products, "is_compiling", lambda: True).start()


def job(path: str, n: int) -> Callable[[int], object]:
    """Return the whole job of a path, a function of the number of steps."""
    torch.manual_seed(0)
    if path != "steps of floats":
        D, right = Diagonal(torch.rand(n, n) + 0.5, ("Nx", "Ny")), torch.randn(n, n)
        return lambda k: conjugate_gradients(D, right, max_num_iters=k, gtol=0, ltol=0)
    maps = torch.randn(N_COILS, n, n, dtype=torch.complex64)
    S = Dense(maps, ("C", "Nx", "Ny"), ishape=("Nx", "Ny"), oshape=("C", "Nx", "Ny"))
    A = Sampling.from_mask(torch.rand(n, n) < 0.5) @ FFT(2, centered=True) @ S
    y = A(torch.randn(n, n, dtype=torch.complex64))
    return lambda k: conjugate_gradients(A.N, A.H(y), max_num_iters=k, gtol=0, ltol=0)


def measured(path: str, n: int) -> tuple[float, float]:
    """Return the processor time and the peak memory in MiB of this process."""
    solve = job(path, n)
    solve(2)
    start = time.process_time()
    solve(N_STEPS)
    taken = time.process_time() - start
    return taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure with and without in turns, each in a process of its own."""
    warnings.simplefilter("ignore")
    path, n, *without = sys.argv[1:]
    if without:
        if without == ["without"]:
            switch_off(path)
        print(json.dumps(measured(path, int(n))))
        return
    result: dict[str, list[list[float]]] = {"with": [], "without": []}
    for _ in range(N_TURNS):
        for way, numbers in result.items():
            command = [sys.executable, __file__, path, n, way]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            numbers.append(json.loads(out))
    ratios = [
        median(column[k] for column in result["without"])
        / median(column[k] for column in result["with"])
        for k in (0, 1)
    ]
    print(f"{path}, {n}: time {ratios[0]:.2f}, memory {ratios[1]:.2f} without")


if __name__ == "__main__":
    main()

"""Numbers of steps, times and peaks of all ways to do a job, each in a process of its own."""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.problem import Problem, save

HERE = Path(__file__).parent
OURS = "by_us"
MODULES = (
    OURS,
    "by_sigpy",
    "by_mrpro",
    "by_deepinv",
    "by_pylops",
    "by_bart",
    "by_reference",
    "by_astra",
)
MOST_STEPS = 512
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}


@dataclass(frozen=True)
class Way:
    """A library that can do a job, or the reason why not."""

    module: str
    name: str
    reason: str
    lines: int
    """Of the function, with the functions of its module that it calls."""


class Worker:
    """A process that does one job in one way."""

    def __init__(self, job: str, module: str, folder: Path, python: str) -> None:
        command = [python, str(HERE / "worker.py"), job, module, str(folder)]
        env = {**os.environ, **THREADS}
        if python != sys.executable:
            env.pop("PYTHONPATH", None)  # which may lead to our package of that name
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.errors = (folder / f"{module}.log").open("w")
        self.process = subprocess.Popen(command, env=env, stderr=self.errors, **pipes)

    def ask(self, what: str, steps: int) -> dict[str, float]:
        """Return what the process answers; a RuntimeError where it has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{what} {steps}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            log = Path(self.errors.name).read_text().strip().splitlines()
            raise RuntimeError(log[-1] if log else "ended without a word")
        answer: dict[str, float] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.errors.close()


@contextmanager
def worker(job: str, way: Way, folder: Path, reference: str | None) -> Iterator[Worker]:
    """Return a process that does a job in one way, and end it."""
    python = reference if way.module == "by_reference" and reference else sys.executable
    found = Worker(job, way.module, folder, python)
    try:
        yield found
    finally:
        found.end()


def ways(job: str, reference: str | None) -> list[Way]:
    """Return all libraries, in their order, with the reason where one cannot do the job."""
    found = []
    for module in MODULES:
        tree = ast.parse((HERE / f"{module}.py").read_text())
        constants = dict(_constants(tree))
        name = ast.literal_eval(constants["WITH"])
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        function = functions.get(job)
        if function is None and isinstance(alias := constants.get(job), ast.Name):
            function = functions[alias.id]
        if function is None:
            absent = constants["ABSENT"]
            reason = _reason(absent, job)
            found.append(Way(module, name, reason, 0))
        elif module == "by_reference" and reference is None:
            found.append(Way(module, name, "no environment was named", 0))
        else:
            found.append(Way(module, name, "", lines_of(function, functions)))
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def _reason(absent: ast.expr, job: str) -> str:
    if isinstance(absent, ast.Dict):
        reasons: Mapping[str, str] = ast.literal_eval(absent)
        return reasons[job]
    assert isinstance(absent, ast.Call)  # dict.fromkeys(jobs, reason)
    return str(ast.literal_eval(absent.args[1]))


def lines_of(function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> int:
    """Return how many lines a user writes: the body, and the bodies of what it calls beside it."""
    called = {
        node.func.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    own = (function.end_lineno or 0) - function.body[0].lineno + 1
    return own + sum(lines_of(functions[name], functions) for name in called & set(functions))


def prepared(problem: Problem, folder: Path) -> None:
    """Write the data of a job, unless they are there."""
    for name, size in (("small", problem.warm_up_size), ("full", problem.size)):
        if not (folder / name / "expected.npy").exists():
            data, expected = problem.make(size)
            save(folder / name, {**data, "is_magnitude": float(problem.is_magnitude)}, expected)


def searched(problem: Problem, folder: Path, reference: str | None) -> dict[str, Any]:
    """Return for each way the least number of steps that are exact enough, or why there is none."""
    file = folder / "steps.json"
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for way in ways(problem.name, reference):
        if way.module in known:
            continue
        found: dict[str, Any] = {
            "name": way.name,
            "reason": way.reason,
            "steps": 0,
            "error": None,
        }
        if not way.reason:
            try:
                with worker(problem.name, way, folder, reference) as process:
                    guess = known.get(OURS, found)["steps"] or 8
                    found |= least_steps(process, problem.tolerance, guess)
            except RuntimeError as error:
                found["reason"] = f"it failed: {error}"
        print(f"  {problem.name}: {way.name}: {found}", flush=True)
        known[way.module] = found
        file.write_text(json.dumps(known, indent=1))
    return known


def least_steps(process: Worker, tolerance: float, guess: int) -> dict[str, Any]:
    """Search from a guess on: in growing strides to an interval, then by halving it."""
    low, high, stride = 0, guess, 1
    answer = process.ask("run", high)
    best = error = answer["error"]
    if not error <= tolerance:
        low = high
    while not error <= tolerance:  # which NaN is not
        if answer["processor"] > 30 or 2 * high > MOST_STEPS:
            is_nan = best != best
            reason = "its result is NaN" if is_nan else f"its error stays at {best:.1e}"
            return {"reason": reason, "error": best}
        low, high = high, high + max(stride, high // 2)
        answer = process.ask("run", high)
        error, stride = answer["error"], 2 * stride
        best = min(error, best)
    while low == 0 and high > 1:
        lower = max(1, high - stride)
        answer = process.ask("run", lower)
        if not answer["error"] <= tolerance:
            low = lower
        else:
            high, error, stride = lower, answer["error"], 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        answer = process.ask("run", middle)
        if answer["error"] <= tolerance:
            high, error = middle, answer["error"]
        else:
            low = middle
    return {"steps": high, "error": error}


def measured(
    problem: Problem, folder: Path, reference: str | None, steps: Mapping[str, Any], rounds: int
) -> dict[str, Any]:
    """Return processor times of rounds in which ways take turns, and the peaks of memory.

    A peak is that of the first run of a process; there are as many processes as rounds.
    """
    chosen = [way for way in ways(problem.name, reference) if steps[way.module]["steps"]]
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        processes = {
            way: stack.enter_context(worker(problem.name, way, folder, reference)) for way in chosen
        }
        times: dict[Way, list[float]] = {way: [] for way in chosen}
        walls: dict[Way, list[float]] = {way: [] for way in chosen}
        errors: dict[Way, float] = {}
        peaks = {
            way: [process.ask("memory", steps[way.module]["steps"])["nbytes"]]
            for way, process in processes.items()
        }
        for _ in range(1, rounds):  # the first run of other processes
            for way, found_peaks in peaks.items():
                with worker(problem.name, way, folder, reference) as process:
                    found_peaks.append(process.ask("memory", steps[way.module]["steps"])["nbytes"])
        for _ in range(rounds):
            for way, process in processes.items():
                answer = process.ask("run", steps[way.module]["steps"])
                times[way].append(answer["processor"])
                walls[way].append(answer["seconds"])
                errors[way] = answer["error"]
    for way in chosen:
        own = times[way]
        ratios = [a / b for a, b in zip(own, times[chosen[0]], strict=True)]
        found[way.module] = {
            "name": way.name,
            "steps": steps[way.module]["steps"],
            "error": errors[way],
            "seconds": statistics.median(own),
            "wall": statistics.median(walls[way]),
            "ratio": statistics.median(ratios),
            "low": min(ratios),
            "high": max(ratios),
            "least": min(own) / min(times[chosen[0]]),
            "nbytes": statistics.median(peaks[way]),
            "peaks": peaks[way],
            "lines": way.lines,
        }
    return found

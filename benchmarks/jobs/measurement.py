"""Numbers of steps, times and peaks of all ways to do a job, each in a process of its own."""

from __future__ import annotations

import ast
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
    "by_rtk",
    "by_skimage",
    "by_mri_nufft",
    "by_torchkbnufft",
)
MOST_STEPS = 512
MUCH = 20.0
"""Seconds of the processor above which a way is measured once."""
LONGEST = 240.0
"""Seconds within which a process must answer; it is ended then, and the library left out."""
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
        """Return what the process answers; a RuntimeError where it has ended or takes too long."""
        assert self.process.stdin is not None and self.process.stdout is not None
        watch = threading.Timer(LONGEST, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(f"{what} {steps}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        took_too_long = watch.finished.is_set()
        watch.cancel()
        if took_too_long:
            raise RuntimeError(f"it took more than {LONGEST:g} s for {steps} steps")
        if not line:
            raise RuntimeError(said(Path(self.errors.name).read_text()))
        answer: dict[str, float] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def said(log: str) -> str:
    """Return why a process has ended, from what it wrote."""
    lines = log.strip().splitlines()
    last = lines[-1] if lines else "it ended without a word"
    if missing := re.match(r"ModuleNotFoundError: No module named '(\w+)", last):
        return f"{missing[1]} is not installed"
    return f"it failed: {last}"


@contextmanager
def worker(job: str, way: Way, folder: Path, reference: str | None) -> Iterator[Worker]:
    """Return a process that does a job in one way, and end it."""
    python = reference if way.module == "by_reference" and reference else sys.executable
    result = Worker(job, way.module, folder, python)
    try:
        yield result
    finally:
        result.end()


def ways(job: str, reference: str | None) -> list[Way]:
    """Return all libraries, in their order, with the reason where one cannot do the job."""
    results = []
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
            reason = _reasons(absent)[job]
            results.append(Way(module, name, reason, 0))
        elif module == "by_reference" and reference is None:
            results.append(Way(module, name, "no environment was named", 0))
        else:
            results.append(Way(module, name, "", lines_of(function, functions)))
    return results


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def _reasons(absent: ast.expr) -> dict[str, str]:
    """Return the reason of each job, from a dict with ``**`` or from ``dict.fromkeys``."""
    if isinstance(absent, ast.Call):
        jobs, reason = map(ast.literal_eval, absent.args)
        return dict.fromkeys(jobs, reason)
    assert isinstance(absent, ast.Dict)
    result: dict[str, str] = {}
    for key, value in zip(absent.keys, absent.values, strict=True):
        result |= (
            _reasons(value) if key is None else {ast.literal_eval(key): ast.literal_eval(value)}
        )
    return result


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
        result: dict[str, Any] = {
            "name": way.name,
            "reason": way.reason,
            "steps": 0,
            "error": None,
        }
        if not way.reason:
            try:
                with worker(problem.name, way, folder, reference) as process:
                    guess = known.get(OURS, result)["steps"] or 8
                    result |= least_steps(process, problem.tolerance, guess)
            except RuntimeError as error:
                result["reason"] = str(error)
        print(f"  {problem.name}: {way.name}: {result}", flush=True)
        known[way.module] = result
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
        if answer["processor"] > 60 or 2 * high > MOST_STEPS:
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
    problem: Problem,
    folder: Path,
    reference: str | None,
    steps: dict[str, Any],
    rounds: int,
    n_peaks: int,
) -> dict[str, Any]:
    """Return processor times of rounds in which ways take turns, and the peaks of memory.

    A peak is that of the first run of a process. A way that fails is named in ``steps``.
    """
    chosen = [way for way in ways(problem.name, reference) if steps[way.module]["steps"]]
    result: dict[str, Any] = {}
    with ExitStack() as stack:
        processes = {
            way: stack.enter_context(worker(problem.name, way, folder, reference)) for way in chosen
        }
        times: dict[Way, list[float]] = {way: [] for way in chosen}
        walls: dict[Way, list[float]] = {way: [] for way in chosen}
        errors: dict[Way, float] = {}
        peaks: dict[Way, list[float]] = {way: [] for way in chosen}

        def ask(process: Worker, way: Way, what: str) -> dict[str, float]:
            """Return the answer; leave the way out if there is none."""
            try:
                return process.ask(what, steps[way.module]["steps"])
            except RuntimeError as error:
                print(f"  {problem.name}: {way.name} is left out: {error}", flush=True)
                steps[way.module] |= {"steps": 0, "reason": str(error)}
                processes.pop(way, None)
                return {}

        for way, process in [*processes.items()]:
            if answer := ask(process, way, "memory"):
                peaks[way].append(answer["nbytes"])
        for _ in range(1, n_peaks):  # the first run of other processes
            for way in [*processes]:
                with worker(problem.name, way, folder, reference) as process:
                    if answer := ask(process, way, "memory"):
                        peaks[way].append(answer["nbytes"])
        for _ in range(rounds):
            for way, process in [*processes.items()]:
                if times[way] and times[way][0] > MUCH:
                    continue
                if answer := ask(process, way, "run"):
                    times[way].append(answer["processor"])
                    walls[way].append(answer["seconds"])
                    errors[way] = answer["error"]
        chosen = [*processes]
    for way in chosen:
        own = times[way]
        ratios = [a / b for a, b in zip(own, times[chosen[0]], strict=False)]
        result[way.module] = {
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
    return result

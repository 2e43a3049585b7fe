"""Run public functions once at a large size, each in a process of its own.

``python run.py [--log2 24] [name ...]``: errors in single precision, peaks of memory, how soon an
interrupt is heard, and shapes beyond 2^31 entries. Without names every entry runs. With
``--record FILE`` each entry is a line of JSON there, and a second run goes on after the first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "integration_tests")]


def entries() -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Yield the name of each entry, and what measures it."""
    import files
    import operators
    import solvers
    from checks import of_meta, of_operator, of_proximal, of_solver

    for name in operators.OPERATORS:
        yield f"operator {name}", partial(of_operator, name)
    for name in operators.OPERATORS:
        if name not in operators.READS_WEIGHTS | operators.MANY_STEPS:
            yield f"meta {name}", partial(of_meta, name)
    for name in solvers.SOLVERS:
        yield f"solver {name}", partial(of_solver, name)
    for name in solvers.PROXIMALS:
        yield f"proximal {name}", partial(of_proximal, name)
    for name, function in files.FUNCTIONS.items():
        yield f"function {name}", function


def missing() -> list[str]:
    """Return public names that have no entry."""
    tested = {word for name, _ in entries() for word in name.split()[1:]}
    import files
    import operators
    import solvers

    tests = import_module("test_what_is_missing")
    public = {name for _, name in tests.operators(*tests.ALL)} - operators.ELSEWHERE
    public |= solvers.public() | files.public()
    return sorted(public - tested)


def alone(name: str, n: int, gib: float, timeout: int, pipe: Any) -> None:
    """Run one entry here, with limits of memory and processor time, and send what it found."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(gib * 2**30),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout + 5))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has none
    measure = dict(entries())[name]
    began = time.perf_counter()
    result: dict[str, Any] = {"name": name, "n": n, "passed": True}
    try:
        result |= measure(n)
    except Exception as error:
        result |= {"passed": False, "failure": f"{type(error).__name__}: {error}"[:400]}
    used = resource.getrusage(resource.RUSAGE_SELF)
    result["seconds"] = round(time.perf_counter() - began, 1)
    result["processor_seconds"] = round(used.ru_utime + used.ru_stime, 1)
    result["peak_gib"] = round(used.ru_maxrss / 2**20, 2)
    pipe.send(result)


def apart(name: str, n: int, gib: float, timeout: int) -> dict[str, Any]:
    """Run one entry in a copy of this process: its peak of memory is that of the entry."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=alone, args=(name, n, gib, timeout, there))
    process.start()
    there.close()
    try:
        result: dict[str, Any] = here.recv()
    except EOFError:
        result = {"name": name, "n": n, "passed": False}
    process.join()
    if process.exitcode:
        code = signal.Signals(-process.exitcode).name if process.exitcode < 0 else process.exitcode
        result["failure"] = f"the process ended with {code} (SIGXCPU: out of time)"
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--log2", type=int, default=24)
    options.add_argument("--timeout", type=int, default=900, help="processor seconds of an entry")
    options.add_argument("--gib", type=float, default=20.0, help="memory for each entry")
    options.add_argument(
        "--record", type=Path, help="file of results; its entries are not repeated"
    )
    options.add_argument("names", nargs="*", help="entries, or the beginnings of their names")
    given = options.parse_args()
    n = 17 << (given.log2 - 4)  # more than a float32 counts, and no power of two
    if lacking := missing():
        sys.exit(f"these have no entry: {', '.join(lacking)}")
    known: list[dict[str, Any]] = []
    if given.record and given.record.exists():
        known = [json.loads(line) for line in given.record.read_text().splitlines()]
    results = {result["name"]: result for result in known if result["n"] == n}
    chosen = [
        name
        for name, _ in entries()
        if not given.names or any(name.startswith(start) for start in given.names)
    ]
    for name in chosen:
        if name not in results:
            results[name] = result = apart(name, n, given.gib, given.timeout)
            print("ok    " if result["passed"] else "FAILED", json.dumps(result), flush=True)
            if given.record:
                with given.record.open("a") as file:
                    print(json.dumps(result), file=file)
    failed = [name for name in chosen if not results[name]["passed"]]
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

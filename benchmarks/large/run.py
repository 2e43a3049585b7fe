"""Run public functions once at a large size, each in a process of its own.

``python run.py [--log2 24] [name ...]``: errors in single precision, peaks of memory, how soon an
interrupt is heard, and shapes beyond 2^31 entries. Without names every entry runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
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


def alone(name: str, n: int, pipe: Any) -> None:
    """Run one entry here, and send what it found."""
    measure = dict(entries())[name]
    began = time.perf_counter()
    try:
        found = measure(n)
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}"[:300]))
        raise SystemExit(1) from error
    found["seconds"] = round(time.perf_counter() - began, 1)
    found["peak_gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    pipe.send((True, json.dumps(found)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--log2", type=int, default=24)
    options.add_argument("--timeout", type=int, default=600, help="seconds for each entry")
    options.add_argument("names", nargs="*", help="entries, or the beginnings of their names")
    given = options.parse_args()
    n = 17 << (given.log2 - 4)  # more than a float32 counts, and no power of two
    if lacking := missing():
        sys.exit(f"these have no entry: {', '.join(lacking)}")
    chosen = [
        name
        for name, _ in entries()
        if not given.names or any(name.startswith(start) for start in given.names)
    ]
    failed = []
    # A copy of this process, which has imported torch: its peak of memory is that of the entry.
    context = multiprocessing.get_context("fork")
    for name in chosen:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=alone, args=(name, n, there))
        process.start()
        there.close()
        try:
            passed, seen = here.recv() if here.poll(given.timeout) else (False, "out of time")
        except EOFError:
            passed, seen = False, "the process ended"
        if not passed:
            process.kill()
        process.join()
        failed += [] if passed else [name]
        print(f"{'ok' if passed else 'FAILED':6} {name}: {seen}", flush=True)
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

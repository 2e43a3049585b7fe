"""Run benchmarks, each in a process of its own, and write their results as JSON, tables and plots.

Usage: ``run_all.py [--reference PYTHON] [--output FOLDER] [bench_NAME ...]``; all without names.
What the folder has of scripts that were not run stays there, each with its date. A script that
fails is named in the results and at the end, with the exit status.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import torch
from peers import PEERS, importable
from plots import write_plots
from results import Measured, Row
from tables import write_tables

HERE = Path(__file__).parent
REFERENCE = "bench_reference"  # a library with the import name of ours: in another environment


def main() -> None:
    """Run what was asked for, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="bench_NAME")
    parser.add_argument("--reference", metavar="PYTHON", help=f"interpreter for {REFERENCE}")
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=HERE / "results")
    options = parser.parse_args()
    known = sorted(path.stem for path in HERE.glob("bench_*.py"))
    if unknown := set(options.names).difference(known):
        parser.error(f"names must be of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    names = options.names or known
    if options.reference is None and REFERENCE in names:
        print(f"{REFERENCE} is left out: no --reference names its Python")
        names = [name for name in names if name != REFERENCE]

    output = options.output / "results.json"
    kept = earlier(output, {*known} - {*names}) if output.exists() else []
    measured = [run(name, options.reference) for name in names]
    about = {
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), no GPU used",
        "python": platform.python_version(),
        "compared with": ", ".join(installed_peers()) or "torch alone",
    }
    options.output.mkdir(parents=True, exist_ok=True)
    shown = sorted([*kept, *measured], key=lambda one: one.name)
    about["not on this page"] = ", ".join(sorted({*known} - {one.name for one in shown})) or "none"
    everything = {**about, "scripts": [asdict(one) for one in shown]}
    output.write_text(json.dumps(everything, indent=1) + "\n")
    plotted = {one.name: write_plots(one.name, one.rows, options.output) for one in shown}
    write_tables(about, shown, plotted, options.output / "results.md")
    print(f"\nresults in {options.output}")
    if failed := [one.name for one in measured if not one.is_complete]:
        sys.exit(f"failed: {', '.join(failed)}")


def earlier(file: Path, names: Collection[str]) -> list[Measured]:
    """Return what was measured before of some scripts."""
    scripts = json.loads(file.read_text())["scripts"]
    return [
        Measured(**{**one, "rows": [Row(**row) for row in one["rows"]]})
        for one in scripts
        if one["name"] in names
    ]


def installed_peers() -> list[str]:
    """Return names and versions of the other libraries that this environment can import."""
    result = {one.metadata["Name"].lower(): one.version for one in distributions()}
    return [f"{name} {result[name]}" for name in importable(PEERS)]


def run(name: str, reference: str | None) -> Measured:
    """Run one script, which prints as it does alone."""
    print(f"\n=== {name}", flush=True)
    env = dict(os.environ)
    python = sys.executable
    if name == REFERENCE and reference is not None:
        python = reference
        env.pop("PYTHONPATH", None)  # which may lead to our package of that name
    if reference is not None:
        env["REFERENCE_PYTHON"] = reference  # bench_jobs has a process for it
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "rows.json")
        command = [python, str(HERE / "measure.py"), str(HERE / f"{name}.py"), str(result)]
        is_complete = subprocess.run(command, env=env).returncode == 0
        threads, load, rows = json.loads(result.read_text()) if is_complete else (0, 0.0, [])
    seconds = time.perf_counter() - start
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    made = [Row(**row) for row in rows]
    return Measured(name, date, torch.__version__, seconds, load, threads, made, is_complete)


if __name__ == "__main__":
    main()

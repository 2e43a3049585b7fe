"""Whole jobs, as users of each library write them: time to the same accuracy, memory, lines.

All ways of a job get the same data and minimise the same function. Each takes as many steps as it
needs to come within a relative error of the solution that double precision finds, or of the object:
these are searched for first. Then all ways take turns, each in a process of its own, with one
thread. Peak memory is the median of some new processes, above what they had after they had loaded
the library, its data and done a small problem. Lines are those of the function, without its first
and empty ones. A library that is not installed, fails or takes too long is left out, and the page
says so.

Usage: ``bench_jobs.py [--folder FOLDER] [--rounds N] [--peaks N] [--search] [JOB ...]``. With a
folder, data, numbers of steps and what was measured are kept and used again; ``--search`` stops
after the search.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import traceback
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import torch
from jobs.measurement import measured, prepared, searched
from jobs.page import write_page
from jobs.problems import BY_NAME, PROBLEMS
from results import record

HERE = Path(__file__).parent
REFERENCE = "REFERENCE_PYTHON"
"""Variable that names the Python of the library whose import name is that of ours."""


def main() -> None:
    """Prepare, search, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peaks", type=int, default=2, help="processes of each way, for memory")
    parser.add_argument("--search", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # cores are shared
    names = options.jobs or [problem.name for problem in PROBLEMS]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in names:
            try:
                of_job(name, folder / name, options)
            except Exception:  # the other jobs can be measured
                traceback.print_exc()
                print(f"{name} is left out", flush=True)
        files = {one.name: folder / one.name / "measured.json" for one in PROBLEMS}
        result = {
            name: json.loads(path.read_text()) for name, path in files.items() if path.exists()
        }
    if result:
        output = HERE / "results" / "jobs.md"
        output.parent.mkdir(exist_ok=True)
        write_page(PROBLEMS, result, about(), output)
        print(f"\npage in {output}")


def about() -> dict[str, str]:
    """Return the machine, and the releases of all libraries."""
    installed = {one.metadata["Name"].lower(): one.version for one in distributions()}
    names = ["torch", "numpy", "scipy", "sigpy", "mrpro", "deepinv", "pylops", "pyproximal"]
    names += ["astra-toolbox", "itk-rtk", "scikit-image", "mri-nufft", "torchkbnufft", "pywavelets"]
    names += ["finufft"]
    versions = [f"{name} {installed[name]}" for name in names if name in installed]
    if bart := shutil.which("bart"):
        said = subprocess.run([bart, "version"], capture_output=True, text=True).stdout.strip()
        versions.append(f"BART {said.removeprefix('v')}")
    if python := os.environ.get(REFERENCE):
        ask = "from importlib.metadata import version; print(version('torch-named-linops'))"
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.strip()
        versions.append(f"torch-named-linops {said}")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), no GPU used",
        "python": platform.python_version(),
        "releases": ", ".join(versions),
    }


def of_job(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Do all of one job."""
    problem = BY_NAME[name]
    reference = os.environ.get(REFERENCE)
    prepared(problem, folder)
    steps = searched(problem, folder, reference)
    if options.search:
        return
    load, start = os.getloadavg()[0], datetime.now(UTC)
    result = measured(problem, folder, reference, steps, options.rounds, options.peaks)
    absent = {one["name"]: one["reason"] for one in steps.values() if one["reason"]}
    when = f"{start:%Y-%m-%d %H:%M}"
    kept = {"date": when, "load": load, "rounds": options.rounds, "peaks": options.peaks}
    kept |= {"absent": absent, "ways": result}
    (folder / "measured.json").write_text(json.dumps(kept, indent=1))
    print(f"\n{problem.title}")
    ours = next(iter(result.values()))
    for way in result.values():
        memory = way["nbytes"] / ours["nbytes"]
        print(
            f"  {way['name']:20} {way['seconds']:8.3f} s {way['ratio']:6.2f}x "
            f"({way['low']:.2f} to {way['high']:.2f}) {way['nbytes'] / 2**20:8.1f} MiB "
            f"{memory:6.2f}x {way['steps']:5} steps {way['error']:.1e} {way['lines']:3} lines"
        )
        against = "" if way is ours else ours["name"]
        record(
            problem.title,
            way["name"],
            way["ratio"],
            "x",
            against=against,
            low=way["low"],
            high=way["high"],
            least=way["least"],
            seconds=way["seconds"],
        )
        record(f"{problem.title}, peak memory", way["name"], way["nbytes"] / 2**20, "MiB")
        record(f"{problem.title}, lines", way["name"], way["lines"], "lines")


if __name__ == "__main__":
    main()

"""The page of all jobs: what was measured of each, and the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.measurement import MODULES, OURS
from jobs.problem import Problem

INTRODUCTION = """# Whole jobs

Sixteen reconstructions and related jobs, with torchlinops and with eleven other libraries.
`benchmarks/bench_jobs.py` wrote this page. It also shows where another library is better.

**The same problem.** All libraries read the same data and minimise the same function. torchlinops
computes the reference solution in double precision. Each library takes as few steps as it needs to
reach the given relative error against the reference. For Richardson-Lucy and for the short scan,
the reference is the object itself, and each library may use its own method.

**Time** is the processor time (user and system) of the whole function below, which makes the
operators and takes the steps, with one thread. Other work on the machine changes it less than it
changes wall time. The libraries take turns, each in its own process. The ratio is the time of the
library divided by ours: the median over the rounds, with the minimum and maximum. The time of BART
includes reading and writing files, but not the start of its processes.

**Memory** is the peak of the first run in a process, above the memory in use after the library and
the data were loaded and a small problem was solved: the median of one or more processes. For BART,
it is the peak of its process, less the memory of an empty process and of the files that it reads.

**Lines** are the lines in the body of the function, and in other functions of the script that it
calls. A statement of several lines counts as several.

Each job has the date of its own run, its number of rounds and the load of the machine before them.
A library that takes more than 20 s has one round.

A ratio above 1 means that torchlinops is faster or needs less memory. Below each table is the
reason for each dash.
"""


def write_page(
    problems: Sequence[Problem],
    measured: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, str],
    output: Path,
) -> None:
    """Write the page of the jobs that were measured."""
    lines = [INTRODUCTION]
    lines += [f"- {key}: {value}" for key, value in about.items()]
    shown = [problem for problem in problems if problem.name in measured]
    of_each = [measured[problem.name]["ways"] for problem in shown]
    firsts = [sum(is_first(ways, number) for ways in of_each) for number in ("ratio", "nbytes")]
    lines += [
        "",
        f"torchlinops has the shortest time in {firsts[0]} of {len(of_each)} jobs, "
        f"and the lowest memory in {firsts[1]}.",
    ]
    for problem in shown:
        lines += section(problem, measured[problem.name])
    lines += ["", "## The other libraries", ""]
    for module in MODULES:
        if module != OURS:
            lines += ["", f"```{{literalinclude}} ../../benchmarks/jobs/{module}.py", "```"]
    output.write_text("\n".join(lines) + "\n")


def is_first(ways: Mapping[str, Any], number: str) -> bool:
    """Return whether no other way has less of something than ours."""
    return bool(ways[OURS][number] <= min(way[number] for way in ways.values()))


def section(problem: Problem, measured: Mapping[str, Any]) -> list[str]:
    """Return the lines of one job."""
    ways, absent = measured["ways"], measured["absent"]
    ours = ways[OURS]
    lines = ["", f"## {problem.title}", "", problem.description, ""]
    n_rounds = measured["rounds"]
    lines += [
        f"n = {problem.size}; relative error {problem.tolerance:g}; {n_rounds} "
        f"round{'s' if n_rounds > 1 else ''} on {measured['date']}; load {measured['load']:.1f}."
    ]
    lines += ["", "| Library | Time | Ratio | Peak memory | Ratio | Steps | Lines |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for way in ways.values():
        spread = "" if way is ours else f" ({way['low']:.2f} to {way['high']:.2f})"
        cells = (
            way["name"],
            f"{way['seconds']:.3f} s",
            f"{way['ratio']:.2f}{spread}",
            f"{way['nbytes'] / 2**20:.1f} MiB",
            f"{way['nbytes'] / ours['nbytes']:.2f}",
            str(way["steps"]),
            str(way["lines"]),
        )
        lines += [f"| {' | '.join(cells)} |"]
    lines += [f"| {name} | - | | - | | | |" for name in absent]
    lines += [""] + [f"- {name}: {reason}." for name, reason in absent.items()]
    path = f"../../benchmarks/jobs/{OURS}.py"
    return [*lines, "", f"```{{literalinclude}} {path}", f":pyobject: {problem.name}", "```"]

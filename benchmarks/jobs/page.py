"""The page of all jobs: what was measured of each, and the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.measurement import MODULES, OURS
from jobs.problem import Problem

INTRODUCTION = """# Whole jobs

Ten jobs as users have them, done with torchlinops and with seven other libraries.
`benchmarks/bench_jobs.py` wrote this page, losses included.

**The same problem.** All ways of a job read the same data and minimise the same function. Its
solution is computed in double precision by torchlinops. Each way takes the least number of steps
that brings it within the given relative error of that solution.

**Time** is the processor time, of user and system, of the whole function below: it makes the
operators and takes the steps. All run in one thread. Processor time depends less on other work on
the machine than the time of a clock does. The ways take turns, each in a process of its own. The
ratio is the median over the rounds of the time over ours, with its least and largest value.
BART's time is that of its processes without their start-up; they read and write files.

**Memory** is the peak of the first run in the process, above what it had when the library was
loaded, the data were there and a small problem was done. BART's is the peak of its process
without that of an empty one and without the files that it reads.

**Lines** are those of the body of the function, with those of the functions beside it that it
calls. Each line of a statement of several lines counts.

A dash has its reason below the table. Ratios are theirs to ours: above 1, ours is faster or
smaller.
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
        f"Ours is first in time in {firsts[0]} of {len(of_each)} jobs, and first in memory",
    ]
    lines += [f"in {firsts[1]}."]
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
        f"round{'s' if n_rounds > 1 else ''}; load {measured['load']:.1f}."
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

"""The results of all benchmarks as a page of tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from results import Measured, Row

INTRODUCTION = """# Benchmarks, as measured

`benchmarks/run_all.py` wrote this page. Each script has the date of its last run. A ratio is the
median over rounds in which the ways take turns. A ratio below 1 is faster than the first way. The
spread leaves out the largest and the smallest tenth. "Least" is the ratio of the least times, which
other work on the machine changes less. A target is an upper bound for the median. The load is the
number of processes that wanted a core in the minute before a script began. Where it exceeds the
number of cores, spreads are wide and times too long. An exponent says how the time of the processor
grows with the number of parts, from 316 on: 1 is in proportion to it.
"""


def write_tables(
    about: Mapping[str, str],
    measured: Sequence[Measured],
    plotted: Mapping[str, Path | None],
    output: Path,
) -> None:
    """Write the page."""
    rows = [row for one in measured for row in one.rows if row.reached is not None]
    n_reached = sum(bool(row.reached) for row in rows)
    lines = [INTRODUCTION]
    lines += [f"- {key}: {value}" for key, value in about.items()]
    lines += [f"- targets reached: {n_reached} of {len(rows)}"]
    for one in measured:
        lines += ["", f"## {one.name}", ""]
        if not one.rows:
            lines += ["Left out here." if one.is_complete else "**This script failed.**"]
            continue
        lines += [
            f"{one.date}, torch {one.torch}; threads: {one.threads}; load: {one.load:.1f}; took "
            f"{one.seconds:.0f} s."
        ]
        picture = plotted[one.name]
        if picture is not None:
            lines += ["", f"![What {one.name} measured]({picture.name})"]
        for section, group in groupby(one.rows, key=lambda row: row.section):
            lines += ["", f"### {section}", "", *table(list(group))]
    output.write_text("\n".join(lines) + "\n")


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of one section."""
    names = ("Work", "Measured", "Spread", "Least", "Time", "Target", "Reached")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        unit = "" if row.unit == "x" else f" {row.unit}"
        spread = "" if row.low is None or row.high is None else f"{row.low:.3g} to {row.high:.3g}"
        least = "" if row.least is None else f"{row.least:.3g}"
        elapsed = "" if row.seconds is None else duration(row.seconds)
        target = "" if row.target is None else f"{row.target:.4g}{unit}"
        reached = {None: "", True: "yes", False: "no"}[row.reached]
        work = f"{row.work}, against {row.against}" if row.against else row.work
        cells = (work, f"{row.value:.4g}{unit}", spread, least, elapsed, target, reached)
        lines += [f"| {' | '.join(cells)} |"]
    return lines


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"

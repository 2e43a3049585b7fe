"""The results of all benchmarks as a page of tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from results import Measured, Row

NO_BREAK = "\N{NO-BREAK SPACE}"
INTRODUCTION = """# Benchmarks, as measured

`benchmarks/run_all.py` wrote this page. Each script has the date of its last run.

- The ways to do a piece of work take turns, in rounds. "Measured" is the median of the ratios to
  the first way. Below 1 is faster than the first way.
- "Spread" leaves out the largest and the smallest tenth of the ratios.
- "Least" is the ratio of the shortest times. Other work on the machine changes it less.
- A target is an upper bound for what is measured.
- The load is the mean number of processes that wanted a core while a script ran, itself among them;
  for runs before 2026-11-27, the mean of the minute before the script. If the load exceeds the
  number of cores, spreads are wide and times too long.
- An exponent of 1 means that processor time is proportional to the number of parts. There are two
  fits: one to all numbers of parts from 316 on, and one to the last factor of ten. The table has
  the larger exponent.

This run:
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
    lines = [("Work", "Measured", "Spread", "Least", "Time", "Target", "Reached")]
    for row in rows:
        unit = "" if row.unit == "x" else f" {row.unit}"
        spread = "" if row.low is None or row.high is None else f"{row.low:.3g} to {row.high:.3g}"
        least = "" if row.least is None else f"{row.least:.3g}"
        elapsed = "" if row.seconds is None else duration(row.seconds)
        target = "" if row.target is None else f"{row.target:.4g}{unit}"
        reached = {None: "", True: "yes", False: "no"}[row.reached]
        work = f"{row.work}, against {row.against}" if row.against else row.work
        lines += [(work, f"{row.value:.4g}{unit}", spread, least, elapsed, target, reached)]
    # Columns that are empty in all rows are left out. Only the first column may be broken.
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    columns[1:] = [tuple(cell.replace(" ", NO_BREAK) for cell in column) for column in columns[1:]]
    head, *body = (f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True))
    return [head, "|---" * len(columns) + "|", *body]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"

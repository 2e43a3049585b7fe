"""The results of all benchmarks as a page of tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from results import Measured, Row

INTRODUCTION = """# Benchmarks, as measured

What `benchmarks/run_all.py` wrote, good and bad, unedited. A ratio is the median over rounds in
which the ways that are compared take turns, and below 1 is faster than the first of them; its
spread leaves out the outermost tenths. "Least" is the ratio of the least times, which other work on
the machine disturbs less. A target is a most, and the median has to reach it. The load is how many
processes wanted a core in the minute before a script began: above the number of cores, spreads are
wide and times are too long.
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
        lines += [f"Threads: {one.threads}; load: {one.load:.1f}; took {one.seconds:.0f} s."]
        picture = plotted[one.name]
        if picture is not None:
            lines += ["", f"![Ratios of {one.name} with their spread]({picture.name})"]
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

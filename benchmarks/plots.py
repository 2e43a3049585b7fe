"""The ratios of one benchmark as a picture, or its times against the number of parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from results import Row


def write_plots(name: str, rows: Sequence[Row], folder: Path) -> Path | None:
    """Write an SVG with a panel for each section that has ratios or times; None without any."""
    drawn = [row for row in rows if row.unit == "x" or row.points]
    sections = [list(group) for _, group in groupby(drawn, key=lambda row: row.section)]
    if not sections:
        return None
    heights = [12 if section[0].points else len(section) + 2 for section in sections]
    figure = Figure(figsize=(8, 0.28 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(sections), squeeze=False, height_ratios=heights)[:, 0]
    for axes, section in zip(panels, sections, strict=True):
        draw_growth(axes, section) if section[0].points else draw(axes, section)
        axes.set_title(section[0].section, fontsize=8, loc="left")
        axes.tick_params(axis="x", which="both", labelsize=7)
    output = folder / f"{name}.svg"
    # The same bytes for the same rows, and letters as text, which takes less than their outlines.
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(output, metadata={"Date": None})
    return output


def draw(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the ratios with their spread, and the targets as marks."""
    for height, row in enumerate(rows):
        low = row.value if row.low is None else row.low
        high = row.value if row.high is None else row.high
        axes.plot([low, high], [height, height], color="C0", alpha=0.5, linewidth=4)
        axes.plot(row.value, height, "o", color="C0")
        if row.target is not None:
            axes.plot(row.target, height, "|", color="C3", markersize=14, markeredgewidth=2)
    axes.axvline(1, color="0.5", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [row.work for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)


def draw_growth(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw times against numbers of parts, with the exponents in the legend."""
    for i, row in enumerate(rows):
        numbers, seconds = zip(*row.points, strict=True)
        style = "o-" if i < 10 else "s--"  # there are ten colours
        label = f"{row.work}: {row.value:.2f}"
        axes.plot(numbers, seconds, style, markersize=3, linewidth=0.8, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of parts", fontsize=7)
    axes.set_ylabel("seconds", fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
    beside = (1, 0.5)
    axes.legend(
        fontsize=6, loc="center left", bbox_to_anchor=beside, title="exponents", title_fontsize=7
    )

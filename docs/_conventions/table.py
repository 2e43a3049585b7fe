"""Runs each row of docs/conventions.md and compares the page; ``--write`` writes it.

A row is a function that calls a library and returns what it saw, in words with measured numbers.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

PAGE = Path(__file__).parents[1] / "conventions.md"
HEAD = """# Conventions of other libraries

Data and code of other libraries come with their conventions. This table says what differs, as it
was measured: each row is a function in `docs/_conventions`, which calls the library at the version
named and fails if it behaves differently. `./nox -s conventions` runs them all. "Guess" is what an
engineer would expect, or what we expected before we ran it. The functions of `torchlinops.interop`
cross these conventions for you.
"""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    section: str
    library: str
    guess: str
    here: str
    seen: Callable[[], str]


ROWS: list[Row] = []


def row(
    section: str, library: str, *, guess: str, here: str
) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register what follows as a row."""

    def registered(seen: Callable[[], str]) -> Callable[[], str]:
        ROWS.append(Row(section, library, guess, here, seen))
        return seen

    return registered


def version_of(library: str) -> str:
    """Return the version of a distribution of Python, or of BART."""
    if library == "bart":
        found = subprocess.run(["bart", "version"], check=True, capture_output=True, text=True)
        return found.stdout.strip().lstrip("v")
    return version(library).partition("+")[0]  # without "+cpu"


def page(rows: list[Row]) -> str:
    """Return the page; run every row."""
    lines, failed = [HEAD], []
    for section in dict.fromkeys(row.section for row in rows):
        lines += [f"## {section}\n", "| Library | Guess | Seen | Here |", "|---|---|---|---|"]
        for each in rows:
            if each.section == section:
                name = f"{each.library} {version_of(each.library)}"
                print(f"{section}: {name}", flush=True)
                try:
                    seen = each.seen()
                except Exception as error:
                    failed.append(name)
                    seen = f"ANOTHER RESULT: {type(error).__name__}: {error}"
                    print(seen)
                lines.append(f"| {name} | {each.guess} | {seen} | {each.here} |")
        lines.append("")
    if failed:
        sys.exit(f"these behave differently now: {', '.join(failed)}")
    return "\n".join(lines)


def main() -> None:
    """Say that the page would be another, or write it."""
    warnings.simplefilter("ignore")
    # DeepInverse and mrpro import torchvision, which looks for operators that only its build for
    # GPUs brings.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    text = page(ROWS)
    if "--write" in sys.argv:
        PAGE.write_text(text, "utf-8")
    elif PAGE.read_text("utf-8") != text:
        sys.exit(f"{PAGE.name} must have what was seen: run this with --write, and look at it")

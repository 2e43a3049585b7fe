"""Numbers that a benchmark prints, kept also as rows for the tables and plots of run_all.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

ROWS: list[Row] = []
"""What this process measured so far."""
LOADS = [os.getloadavg()[0]]
"""The load at the start and with each row."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of one section."""

    section: str
    work: str
    value: float
    """A median, where there are several rounds."""
    unit: str
    """``"x"`` is a ratio to ``against``; ``"exponent"`` is the growth of a time."""
    against: str = ""
    low: float | None = None
    high: float | None = None
    """Spread of the value, as the section measured it."""
    least: float | None = None
    """Ratio of the least times: what is left where nothing else ran on the machine."""
    seconds: float | None = None
    """Where the value is a ratio: what the work itself took."""
    target: float | None = None
    """What was aimed at: at most this."""
    points: Sequence[tuple[int, float]] = ()
    """Where the value is an exponent: numbers of parts and the seconds that they took."""

    @property
    def reached(self) -> bool | None:
        """Whether the value is at the target or below; None without one."""
        return None if self.target is None else self.value <= self.target


@dataclass(frozen=True)
class Measured:
    """Of one script; no rows where it failed."""

    name: str
    date: str
    torch: str
    seconds: float
    load: float
    """Mean number of processes that wanted a core while it ran, with its own."""
    threads: int
    rows: list[Row]
    is_complete: bool


def record(
    section: str,
    work: str,
    value: float,
    unit: str,
    *,
    against: str = "",
    low: float | None = None,
    high: float | None = None,
    least: float | None = None,
    seconds: float | None = None,
    target: float | None = None,
    points: Sequence[tuple[int, float]] = (),
) -> None:
    """Keep one number as a `Row`, and the load; the caller prints the number as well."""
    LOADS.append(os.getloadavg()[0])
    ROWS.append(
        Row(
            section=section,
            work=work,
            value=value,
            unit=unit,
            against=against,
            low=low,
            high=high,
            least=least,
            seconds=seconds,
            target=target,
            points=points,
        )
    )

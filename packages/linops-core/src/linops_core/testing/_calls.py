"""Counts of function calls: a measure of work that has no noise."""

from __future__ import annotations

import sys
from collections.abc import Callable


def n_calls(work: Callable[[], object]) -> int:
    """Return how many functions of Python and C ``work`` calls."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count

"""What to do about operators that are nested more deeply than Python calls functions."""

from __future__ import annotations

ADVICE = (
    "operators nested more than 100 levels deep need a higher limit: call "
    "sys.setrecursionlimit(10 * levels), or write the levels as a loop, in fn of your own operator"
)


def advise(error: RecursionError) -> None:
    """Add to the message of an error what to do about operators that are nested too deeply."""
    if ADVICE not in str(error):
        error.args = (f"{error}; {ADVICE}",)

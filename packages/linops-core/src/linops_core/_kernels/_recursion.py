"""What to do about operators that are nested more deeply than Python calls functions."""

from __future__ import annotations

ADVICE = (
    "operators nested more than 100 levels deep need a higher limit: call "
    "sys.setrecursionlimit(10 * levels), or write the levels as a loop, in fn of your own operator"
)


def advise(error: RecursionError) -> None:
    """Add to the message of Python's own error what to do about operators nested too deeply."""
    message = str(error)
    if message.startswith("maximum recursion depth exceeded") and ADVICE not in message:
        error.args = (f"{message}; {ADVICE}",)

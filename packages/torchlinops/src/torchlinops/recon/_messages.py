"""Errors in the name of the function that a user called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from linops_core.siblings import check_flags, check_integer, check_real


@contextmanager
def in_name_of(owner: str, advice: str | None = None) -> Iterator[None]:
    """Let the message of an error begin with this name, instead of that of a part.

    ``advice`` is what users of this function can do, in place of what users of the part can.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        part, _, rest = str(error).partition(": ")
        if part == owner or not rest:
            raise
        rule, semicolon, of_part = rest.partition("; ")
        rest = rule + semicolon + (advice or of_part if semicolon else "")
        raise type(error)(f"{owner}: {rest}") from error


def check_options(
    owner: str,
    max_num_iters: int,
    tol: float,
    progress: bool,
    callback: Callable[..., object] | None,
) -> None:
    """Check the options of a solver, which would name itself, and its own arguments."""
    check_integer(owner, "max_num_iters", max_num_iters, 0)
    check_real(owner, "tol", tol, 0)
    check_flags(owner, progress=progress)
    if not callable(callback) and callback is not None:
        raise TypeError(f"{owner}: callback must be a function, got {callback!r}")

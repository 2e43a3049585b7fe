"""Errors in the name of the function that a user called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from linops_core.siblings import check_flags, check_integer, check_real


@contextmanager
def in_name_of(owner: str) -> Iterator[None]:
    """Let the message of an error begin with this name, instead of that of a part."""
    try:
        yield
    except (TypeError, ValueError) as error:
        part, _, rest = str(error).partition(": ")
        if part == owner or not rest:
            raise
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

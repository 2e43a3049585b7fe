"""Errors for files that another library cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

MOST_DEFLATED = 1032
"""Largest compression factor of DEFLATE (gzip, HDF5)."""
MOST_IN_BZIP2 = 2 * 10**6
"""More than that of bzip2: a block of 900,000 runs of 259 in 5 bytes has at least 32 bytes."""


@contextmanager
def reader_errors(owner: str, name: str, kind: str) -> Iterator[None]:
    """Turn any exception of a reader into a ValueError that names the file.

    Readers pass on exceptions of gzip, struct, NumPy, the allocator and C code.
    """
    try:
        yield
    except Exception as error:
        if str(error).startswith(f"{owner}: "):
            raise
        what = " ".join(str(error).split())[:160] or type(error).__name__
        raise ValueError(f"{owner}: {name} must be {kind}, got: {what}") from error

"""What is said of files that another library cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

MOST_DEFLATED = 1032
"""How many bytes one byte that is stored by DEFLATE (gzip, HDF5) can stand for at the most."""


@contextmanager
def damaged(owner: str, name: str, kind: str) -> Iterator[None]:
    """Turn whatever the reader of a file raises into a ValueError that names the file.

    Libraries pass on what gzip, struct, NumPy, the allocator and C code raise.
    """
    try:
        yield
    except Exception as error:
        if str(error).startswith(f"{owner}: "):
            raise
        what = " ".join(str(error).split())[:160] or type(error).__name__
        raise ValueError(f"{owner}: {name} must be {kind}, got: {what}") from error

"""A pause of Python's collector of cycles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from gc import disable, enable, isenabled
from threading import RLock

_lock = RLock()
"""Held while a thread reads and changes whether the collector is enabled."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector of cycles, which would scan all objects of a report many times.

    For 100,000 tensors this takes as long as the report itself.
    """
    was_enabled = False
    try:
        with _lock:
            was_enabled = isenabled()
            disable()
        yield
    finally:
        if was_enabled:
            with _lock:
                enable()

"""A scope of one call, so that parts of an operator check and send what they share only once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import torch

T = TypeVar("T")

_CALL: ContextVar[dict[Hashable, Any] | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Treat everything inside the block, also nested calls, as one call of this thread.

    Shared objects are made once for the whole call, so changes of weights during it are not seen.
    While torch compiles there is no such scope, because it cannot trace a context variable.
    """
    if torch.compiler.is_compiling() or _CALL.get() is not None:
        yield
        return
    token = _CALL.set({})
    try:
        yield
    finally:
        _CALL.reset(token)


def made_once_per_call(key: Hashable, make: Callable[[], T]) -> T | None:
    """Return the object for a key, made once per call; return None outside of a call."""
    call = None if torch.compiler.is_compiling() else _CALL.get()
    if call is None:
        return None
    if key not in call:
        call[key] = make()
    return cast(T, call[key])

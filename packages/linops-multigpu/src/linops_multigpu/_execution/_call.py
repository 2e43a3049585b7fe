"""One call of an operator whose parts share something: looked at once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

T = TypeVar("T")

_CALL: ContextVar[dict[Hashable, Any] | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Let all that happens inside be one call of this thread, also another call.

    What parts of it share is made once for all, so a change of weights by the call is not seen.
    """
    if _CALL.get() is not None:
        yield
        return
    token = _CALL.set({})
    try:
        yield
    finally:
        _CALL.reset(token)


def once_a_call(key: Hashable, make: Callable[[], T]) -> T | None:
    """Return what was made under this key in this call, or else is now; None outside of a call."""
    call = _CALL.get()
    if call is None:
        return None
    if key not in call:
        call[key] = make()
    return cast(T, call[key])

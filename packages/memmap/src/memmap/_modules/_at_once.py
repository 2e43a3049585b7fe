"""Several changes as one step: no interrupt comes between them.

Python raises `KeyboardInterrupt`, and what another thread has asked for, only between two of its
own instructions. Calls that are prepared as `functools.partial` of functions written in C, and run
by one call of `deque`, have none between them: all are made, or none.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import ParamSpec, TypeAlias, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

Call: TypeAlias = Callable[[], object]
"""A function written in C that runs no Python, with all its arguments: a `functools.partial`."""

_call: Callable[[Call], object] = operator.call
_set_grad_enabled = torch._C._set_grad_enabled


def at_once(calls: Iterable[Call]) -> None:
    """Make some calls, the first one first, without an interrupt between them.

    If a call fails, those before it have been made, and those after it have not.
    """
    # Modes and subclasses that redefine functions of torch (a default device is one) run Python.
    guard = torch._C.DisableTorchFunction()
    leave = partial(guard.__exit__, None, None, None)
    prepared: list[Call] = [guard.__enter__, *calls, leave]
    results: Iterator[object] = map(_call, prepared)
    try:
        deque(results, maxlen=0)
    except BaseException:
        leave()
        raise


def keeps_grad_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: no interrupt (inside of `torch.no_grad`, say) leaves gradients switched off."""

    @wraps(function)
    def keeping(*args: P.args, **kwargs: P.kwargs) -> R:
        before = torch.is_grad_enabled()
        try:
            return function(*args, **kwargs)
        finally:
            _set_grad_enabled(before)

    return keeping


def attribute_set(owner: object, name: str, new: object, old: object) -> tuple[Call, Call]:
    """The calls that set an attribute, and that set it back; no ``__setattr__`` is called."""
    set_attribute = object.__setattr__
    return partial(set_attribute, owner, name, new), partial(set_attribute, owner, name, old)

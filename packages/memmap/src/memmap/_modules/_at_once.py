"""Several changes in one step that no interrupt can divide.

Python raises `KeyboardInterrupt`, and exceptions requested by other threads, only between two
Python instructions. Calls prepared as `functools.partial` of C functions, and run by one call of
`deque`, have no Python instruction between them: all calls are made, or none.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial, wraps
from typing import ParamSpec, TypeAlias, TypeVar

import torch

from .._torch import WithoutFunctions, set_grad_enabled

P = ParamSpec("P")
R = TypeVar("R")

Call: TypeAlias = Callable[[], object]
"""A `functools.partial` of a C function that runs no Python code, with all its arguments."""

_call: Callable[[Call], object] = operator.call


def at_once(calls: Iterable[Call]) -> None:
    """Make calls in order, without an interrupt between them.

    If a call fails, the calls before it have been made and the calls after it have not.
    """
    # Torch function modes and subclasses (a default device is a mode) would run Python code.
    guard = WithoutFunctions()
    leave = partial(guard.__exit__, None, None, None)
    prepared: list[Call] = [guard.__enter__, *calls, leave]
    results: Iterator[object] = map(_call, prepared)
    try:
        deque(results, maxlen=0)
    except BaseException:
        leave()
        raise


def keeps_grad_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that restores the grad mode, also after an interrupt inside `torch.no_grad`.

    The function runs outside of inference mode: a parameter that gets memory there is never
    trained again, without an error.
    """

    @wraps(function)
    def keeping(*args: P.args, **kwargs: P.kwargs) -> R:
        before = torch.is_grad_enabled()
        in_inference = torch.is_inference_mode_enabled()
        try:
            with torch.inference_mode(False) if in_inference else nullcontext():
                set_grad_enabled(before)  # leaving inference mode enables gradients
                return function(*args, **kwargs)
        finally:
            set_grad_enabled(before)

    return keeping


def attribute_set(owner: object, name: str, new: object, old: object) -> tuple[Call, Call]:
    """The calls that set an attribute and that reset it, without calling ``__setattr__``."""
    set_attribute = object.__setattr__
    return partial(set_attribute, owner, name, new), partial(set_attribute, owner, name, old)

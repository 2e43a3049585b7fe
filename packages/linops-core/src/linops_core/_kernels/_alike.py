"""Loops over steps that allocate alike, of which memory planning needs only some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from torch import Tensor

from ._torch_state import FakeTensor

Step = TypeVar("Step")
Choose: TypeAlias = Callable[[Iterable[Any], Callable[[Any], object]], Iterable[Any]]


_CHOOSE: ContextVar[Choose | None] = ContextVar("choose", default=None)


def steps_that_differ(
    x: Tensor, steps: Iterable[Step], key: Callable[[Step], object]
) -> Iterable[Step]:
    """Return the steps of a loop; while memory is planned, without those that repeat others.

    Parameters
    ----------
    x : Tensor
        The input. If it has data, all steps are returned.
    steps : iterable
        Each step may leave out its result, but must not leave a loop early.
    key : callable
        Returns what decides how much memory a step takes: operators, tensors and numbers.
    """
    choose = _CHOOSE.get() if isinstance(x, FakeTensor) else None
    return steps if choose is None else choose(steps, key)


@contextmanager
def choosing_steps(choose: Choose) -> Iterator[None]:
    """Call ``choose(steps, key)`` for loops over inputs without data."""
    token = _CHOOSE.set(choose)
    try:
        yield
    finally:
        _CHOOSE.reset(token)

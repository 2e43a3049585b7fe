"""What was found about an operator, kept with it by who found it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from torch import Size

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """A value that is kept with each operator, in its dictionary ``_memos``.

    Copies and files do not have it. An operator that shares all dimensions and attributes with
    another one takes over its values.

    Parameters
    ----------
    is_own : bool
        Whether the value is about one object, so that no other operator takes it over.
    """

    def __init__(self, *, is_own: bool = False) -> None:
        self.is_own = is_own

    def of(self, linop: Any) -> Value | None:
        """Return the value that is kept with an operator, or None."""
        return cast("Value | None", linop.__dict__["_memos"].get(self))

    def keep(self, linop: Any, value: Value) -> Value:
        """Keep a value with an operator, and return it."""
        linop.__dict__["_memos"][self] = value
        return value

    def take(self, linop: Any) -> Value | None:
        """Return the value, which is no longer kept."""
        return cast("Value | None", linop.__dict__["_memos"].pop(self, None))


CHECKED = Memo[tuple[tuple[object, ...], Size]](is_own=True)
"""The facts of the last call that was checked, and the shape of its result."""


def inherited_values(values: dict[Memo[Any], Any]) -> dict[Memo[Any], Any]:
    """Return the values that another operator with the same attributes takes over."""
    return {memo: value for memo, value in values.items() if not memo.is_own}


def may_be_kept(shape: Size) -> bool:
    """Whether a shape consists of numbers, and not of symbols of a tracer."""
    return all([type(length) is int for length in shape])

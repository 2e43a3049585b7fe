"""Questions that one caller asks of operators, and that some classes answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch, update_wrapper, wraps
from typing import Any, Generic, TypeVar

from ._linop import has_functions_of

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Callable[..., object])


class Question(Generic[Result]):
    """A function of an operator with another answer for each class that registers one.

    An answer is about the ``fn`` and ``adj_fn`` of its class. A class that overrides one of them,
    or ``forward``, is another operator, and does not inherit the answer: the default holds. For an
    answer that does not depend on these functions, use :func:`functools.singledispatch`.

    Examples
    --------
    >>> from linops_core import Diagonal, Scalar
    >>> @Question
    ... def is_fast(linop):
    ...     return False
    >>> @is_fast.register(Scalar)
    ... def yes(linop):
    ...     return True
    >>> class Logged(Scalar):
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         print("called")
    ...         return Scalar.fn(linop, x)
    >>> is_fast(Scalar(2.0)), is_fast(Logged(2.0))
    (True, False)
    """

    def __init__(self, default: Callable[..., Result]) -> None:
        self._default = default
        self._answers = singledispatch(default)
        update_wrapper(self, default)

    def __call__(self, linop: Any, *args: Any) -> Result:
        """Return the answer of the class of the operator, else the default."""
        return self._answers(linop, *args)

    def register(self, *classes: type) -> Callable[[Answer], Answer]:
        """Return a decorator for the answer of some classes."""

        def kept(answer: Answer) -> Answer:
            for cls in classes:
                self._answers.register(cls)(self._answer_of(cls, answer))
            return answer

        return kept

    def _answer_of(self, cls: type, answer: Callable[..., Any]) -> Callable[..., Result]:
        @wraps(answer)
        def guarded(linop: Any, *args: Any) -> Result:
            holds = has_functions_of(type(linop), cls, "fn", "adj_fn", "forward")
            return (answer if holds else self._default)(linop, *args)

        return guarded

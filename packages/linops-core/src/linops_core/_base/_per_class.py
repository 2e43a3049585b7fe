"""Functions with another implementation for each class of operators that registers one."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

Rest = ParamSpec("Rest")
Result = TypeVar("Result")
Implementation = TypeVar("Implementation", bound=Callable[..., object])


class PerClass(Generic[Rest, Result]):
    """A function of an operator, chosen by the class of the operator or its nearest base.

    It is like :func:`functools.singledispatch`, whose cache is written to at the first call for a
    class: torch.compile then refuses to read the names of dimensions in the same graph.
    """

    def __init__(self, default: Callable[Concatenate[Any, Rest], Result]) -> None:
        self.default = default
        self.implementations: dict[type, Callable[..., Any]] = {}
        update_wrapper(self, default)

    def __call__(self, linop: object, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        """Call the implementation for the class of the operator."""
        result: Result = self.of(type(linop))(linop, *args, **kwargs)
        return result

    def of(self, cls: type) -> Callable[..., Any]:
        """Return the implementation for a class."""
        for base in cls.__mro__:
            if base in self.implementations:
                return self.implementations[base]
        return self.default

    def register(self, cls: type) -> Callable[[Implementation], Implementation]:
        """Return a decorator for the implementation of a class."""

        def kept(implementation: Implementation) -> Implementation:
            self.implementations[cls] = implementation
            return implementation

        return kept

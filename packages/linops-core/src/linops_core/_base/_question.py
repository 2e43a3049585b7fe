"""What holds for the functions of a class: closed forms, and answers to questions of one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeGuard, TypeVar

Rest = ParamSpec("Rest")
Result = TypeVar("Result")
Implementation = TypeVar("Implementation", bound=Callable[..., object])
Kind = TypeVar("Kind")
Answer = TypeVar("Answer", bound=Callable[..., object])


_OF_FUNCTIONS = ("fn", "adj_fn")
_OF_CALLS = (*_OF_FUNCTIONS, "forward")
_OF_NORMALS = ("normal_fn", "adj_normal_fn")
_CLOSED_FORMS = {
    "adjoint": _OF_FUNCTIONS,
    "conj": _OF_CALLS,
    "is_real": _OF_CALLS,
    "__pow__": _OF_CALLS,
    "normal": _OF_CALLS,
    "flatten": _OF_CALLS,
    "own_normal": (*_OF_CALLS, *_OF_NORMALS),
    **dict.fromkeys(_OF_NORMALS, _OF_CALLS),
}
"""The functions of its class of which each attribute is a closed form."""


def has_functions_of(cls: type, parent: type, *names: str) -> bool:
    """Whether a class has functions of a base class; what that one leaves open does not count."""
    base = _base_of(parent)
    left_open = [getattr(base, name) for name in (*_OF_FUNCTIONS, *_OF_NORMALS)]
    return all(
        getattr(parent, name) in left_open or getattr(cls, name) is getattr(parent, name)
        for name in names
    )


def _base_of(cls: type) -> type:
    """Return the base class of all operators, which says what a class can override."""
    return next(base for base in reversed(cls.__mro__) if "fn" in vars(base))


def acts_as(linop: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether an operator is one of a class, with the functions of that class.

    What is known of a class, such as of an identity, does not hold for a subclass with another
    ``fn``.
    """
    cls = type(linop)
    return cls is kind or (issubclass(cls, kind) and has_functions_of(cls, kind, *_OF_CALLS))


def lost_closed_forms(cls: type) -> Iterator[str]:
    """Yield the inherited closed forms that a class loses: it overrides their functions."""
    for name, functions in _CLOSED_FORMS.items():
        definer = next(base for base in cls.__mro__ if name in vars(base))
        # Also functions that the definer leaves open and a class between the two has.
        between = [base for base in cls.__mro__ if issubclass(base, definer)]
        is_of_base = issubclass(_base_of(cls), definer)
        if not is_of_base and not all(has_functions_of(cls, each, *functions) for each in between):
            yield name


def always_true(linop: object) -> bool:
    """Return True: the answer of a class whose operators are all alike in it."""
    return True


class PerClass(Generic[Rest, Result]):
    """A function of an operator, chosen by the class of the operator or its nearest base.

    It does not depend on the ``fn`` of the class; otherwise use :class:`Question`. It is like
    :func:`functools.singledispatch`, whose cache is written to at the first call for a class:
    torch.compile then refuses to read the names of dimensions in the same graph.
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


class Question(Generic[Result]):
    """A function of an operator with another answer for each class that registers one.

    An answer is about the ``fn`` and ``adj_fn`` of its class. A class that overrides one of them,
    or ``forward``, is another operator, and does not inherit the answer: the default holds.

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
        self._answers: PerClass[..., Result] = PerClass(default)
        update_wrapper(self, default)

    def __call__(self, linop: Any, *args: Any) -> Result:
        """Return the answer of the class of the operator, else the default."""
        return self._answers(linop, *args)

    def register(self, *classes: type) -> Callable[[Answer], Answer]:
        """Return a decorator for the answer of some classes: a function of the same arguments."""

        def kept(answer: Answer) -> Answer:
            for cls in classes:
                self._answers.register(cls)(self._answer_of(cls, answer))
            return answer

        return kept

    def _answer_of(self, cls: type, answer: Callable[..., Any]) -> Callable[..., Result]:
        @wraps(answer)
        def guarded(linop: Any, *args: Any) -> Result:
            return (answer if acts_as(linop, cls) else self._default)(linop, *args)

        return guarded

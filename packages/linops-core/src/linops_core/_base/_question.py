"""What holds for the functions of a class: closed forms, and answers to questions of one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeGuard, TypeVar

Rest = ParamSpec("Rest")
Result = TypeVar("Result")
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
    return isinstance(linop, kind) and _acts_alike(type(linop), kind)


def _acts_alike(cls: type, kind: type) -> bool:
    return cls is kind or has_functions_of(cls, kind, *_OF_CALLS)


def lost_closed_forms(cls: type) -> Iterator[str]:
    """Yield the inherited closed forms that a class loses: it overrides their functions."""
    for name, functions in _CLOSED_FORMS.items():
        definer = next(base for base in cls.__mro__ if name in vars(base))
        # A class between the two may have functions that the definer leaves open.
        between = [base for base in cls.__mro__ if issubclass(base, definer)]
        is_of_base = issubclass(_base_of(cls), definer)
        if not is_of_base and not all(has_functions_of(cls, each, *functions) for each in between):
            yield name


def always_true(linop: object) -> bool:
    """Return True: the answer of a class whose operators are all alike in it."""
    return True


class Question(Generic[Rest, Result]):
    """A function of an operator with another answer for each class that registers one.

    Use a method or an attribute of the base class for what the author of an operator says of it:
    ``fn``, ``size``, ``is_real``. Use a question, beside the function that asks it, for what one
    caller wants to know and most classes need not say; its default is right for all of them.

    An answer is about the ``fn`` and ``adj_fn`` of its class. A class that overrides one of them,
    or ``forward``, is another operator, and does not inherit the answer: the default holds.
    Answers about operands are inherited as these are, by all subclasses; make such a question by
    :meth:`inherited`. An answer never repeats a method, which a subclass may override.

    It is not a :func:`functools.singledispatch`, whose cache is written to at the first call for a
    class: torch.compile then refuses to read the names of dimensions in the same graph.

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

    def __init__(self, default: Callable[Concatenate[Any, Rest], Result]) -> None:
        self.default = default
        """The answer of all other classes."""
        self._answers: dict[type, Callable[..., Any]] = {}
        self._is_inherited = False
        update_wrapper(self, default)

    @classmethod
    def inherited(cls, default: Callable[Concatenate[Any, Rest], Result]) -> Question[Rest, Result]:
        """Make a question whose answers do not depend on the ``fn`` of a class."""
        question = Question(default)
        question._is_inherited = True
        return question

    def __call__(self, linop: Any, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        """Return the answer of the class of the operator or its nearest base, else the default."""
        result: Result = self._answer_of(type(linop))(linop, *args, **kwargs)
        return result

    def register(self, *classes: type) -> Callable[[Answer], Answer]:
        """Return a decorator for the answer of some classes: a function of the same arguments."""

        def kept(answer: Answer) -> Answer:
            self._answers.update(dict.fromkeys(classes, answer))
            return answer

        return kept

    def _answer_of(self, cls: type) -> Callable[..., Any]:
        kind = next((base for base in cls.__mro__ if base in self._answers), None)
        if kind is None or not (self._is_inherited or _acts_alike(cls, kind)):
            return self.default
        return self._answers[kind]

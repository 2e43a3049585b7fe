"""Expressions: what a function computes, written down before the values exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

Number: TypeAlias = complex | float | int
"""Any Python number."""
TensorFunction: TypeAlias = Callable[..., torch.Tensor]


def _elementwise(
    function: TensorFunction, symbol: str, is_swapped: bool = False
) -> Callable[[Expression, Operand], Expression]:
    """A Python operator as a function of torch; `is_swapped` exchanges the operands."""

    def method(self: Expression, other: Operand) -> Expression:
        operands = (other, self) if is_swapped else (self, other)
        return Allocating(function, symbol, True, *operands)

    return method


class Expression:
    """A value that is computed when a function is called.

    Expressions are made by `variable`, `shared` and `apply`, and combined with ``+ - * / ** @``,
    also with Python numbers.

    Examples
    --------
    >>> x = variable("x")
    >>> 2 * x + 1
    (x * 2) + 1
    """

    # Without this, NumPy would apply its operators element by element.
    __array_ufunc__ = None

    expressions: Sequence[Expression] = ()  # the operands that are expressions

    # torch requires a tensor as first operand; these two operators commute.
    __add__ = __radd__ = _elementwise(torch.add, "+")
    __mul__ = __rmul__ = _elementwise(torch.mul, "*")
    __sub__ = _elementwise(torch.sub, "-")
    __rsub__ = _elementwise(torch.sub, "-", is_swapped=True)
    __truediv__ = _elementwise(torch.true_divide, "/")
    __rtruediv__ = _elementwise(torch.true_divide, "/", is_swapped=True)
    __pow__ = _elementwise(torch.pow, "**")
    __rpow__ = _elementwise(torch.pow, "**", is_swapped=True)

    def __neg__(self) -> Expression:
        return Allocating(torch.neg, "-", True, self)

    def __matmul__(self, other: Expression) -> Expression:
        return Allocating(torch.matmul, "@", False, self, other)


Operand: TypeAlias = Expression | Number


class Variable(Expression):
    """An input of a function. Make one with `variable`."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"variable: a name must be a string, got {name!r}")
        self.name = name

    def __repr__(self) -> str:
        return self.name


class AppliedFunction(Expression):
    """A function of other expressions and numbers. Make one with `apply`."""

    def __init__(self, function: TensorFunction, *operands: Operand) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        for operand in operands:
            if not isinstance(operand, (Expression, int, float, complex)):
                raise TypeError(
                    f"{self.name}: an operand must be an expression or a number "
                    f"(put a value into a shared variable), got {type(operand).__name__}"
                )
        self.function = function
        self.operands = operands
        self.expressions = [operand for operand in operands if isinstance(operand, Expression)]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.operands))})"


class Allocating(AppliedFunction):
    """A function of torch that returns new memory, or writes to its ``out=``.

    An elementwise function may write where it reads.
    """

    def __init__(
        self, function: TensorFunction, symbol: str, is_elementwise: bool, *operands: Operand
    ) -> None:
        super().__init__(function, *operands)
        self.is_elementwise = is_elementwise
        self._symbol = symbol

    def __repr__(self) -> str:
        texts = [
            f"({operand!r})" if isinstance(operand, Allocating) else repr(operand)
            for operand in self.operands
        ]
        return f" {self._symbol} ".join(texts) if len(texts) == 2 else f"{self._symbol}{texts[0]}"


def variable(name: str) -> Variable:
    """Make an input of a function; in expressions it stands for the argument of the call.

    Parameters
    ----------
    name : str
        The name to show. Raises `TypeError` if it is not a string.

    Examples
    --------
    >>> variable("x") / 2
    x / 2
    """
    return Variable(name)


def apply(function: TensorFunction, *operands: Operand) -> AppliedFunction:
    """Apply a function of tensors to expressions.

    Parameters
    ----------
    function : callable
        Takes the values of the operands and returns a tensor: a new one, or a view of an operand.
        It may write only to memory that it allocated itself.
    *operands : Expression or number
        The operands. Raises `TypeError` for other objects.

    Examples
    --------
    >>> apply(torch.exp, variable("x"))
    exp(x)
    """
    if not callable(function):
        raise TypeError(f"apply: the function must be callable, got {function!r}")
    return AppliedFunction(function, *operands)

"""In and Out: what a function may do with the memory of an argument and of a result."""

from __future__ import annotations

from ._expressions import Expression, Variable
from ._values import check_flag


class In:
    """An input of a function, and what the function may do with the argument's memory.

    Parameters
    ----------
    variable : Variable
        The input, made by `variable`.
    borrow : bool, optional
        Whether a result may be returned in the memory of the argument. It is, where the output
        has ``borrow=True`` too and is the argument itself or a view of it.
    mutable : bool, optional
        Whether the function may overwrite the argument: it is used as workspace. Implies
        `borrow`.

    Raises
    ------
    TypeError
        If `variable` is no variable, or a flag is no truth value.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> In(variable("x"), mutable=True)
    In(x, borrow=True, mutable=True)
    """

    def __init__(self, variable: Variable, borrow: bool = False, mutable: bool = False) -> None:
        if not isinstance(variable, Variable):
            raise TypeError(f"In: an input must be a variable, got {variable!r}")
        check_flag("In: borrow", borrow)
        check_flag("In: mutable", mutable)
        self.variable = variable
        self.borrow = borrow or mutable
        self.mutable = mutable

    def __repr__(self) -> str:
        return f"In({self.variable!r}, borrow={self.borrow}, mutable={self.mutable})"


class Out:
    """An output of a function, and whose memory the function may return it in.

    Parameters
    ----------
    expression : Expression
        What to compute.
    borrow : bool, optional
        Whether the result may be returned in memory that is used again, by the next call or by
        another function: a buffer that the function keeps, a shared variable's memory, or that of
        an argument that `In` lets it borrow.

    Raises
    ------
    TypeError
        If `expression` is no expression, or `borrow` no truth value.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> Out(-variable("x"), borrow=True)
    Out(-x, borrow=True)
    """

    def __init__(self, expression: Expression, borrow: bool = False) -> None:
        if not isinstance(expression, Expression):
            raise TypeError(f"Out: an output must be an expression, got {expression!r}")
        check_flag("Out: borrow", borrow)
        self.expression = expression
        self.borrow = borrow

    def __repr__(self) -> str:
        return f"Out({self.expression!r}, borrow={self.borrow})"

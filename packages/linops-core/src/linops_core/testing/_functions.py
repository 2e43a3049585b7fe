"""Checks of an operator's functions: they are what they say, with results of one dtype."""

from __future__ import annotations

import copy

from torch import Tensor

from .._algebra._zero import Zero
from .._base._copying import submodules_of
from .._base._linop import NamedLinop
from ._tiles import Close, LawError


def check_functions(A: NamedLinop, x: Tensor, close: Close) -> None:
    """Check the functions of an operator and of copies of it, given an input of it.

    Raises
    ------
    LawError
        If a function of the operator, of a copy or of the adjoint of its adjoint, made by hand,
        returns something else than ``A(x)``, ``A.H(y)`` or ``A.N(x)``.
    """
    y = A(x)
    wanted = {"fn": y, "adj_fn": A.H(y), "normal_fn": A.N(x), "H": A.H(y), "N": A.N(x)}
    for how, B in (("A", A), ("copy.copy(A)", copy.copy(A)), ("by hand", adjoint_by_hand(A.H))):
        results = {"fn": B.fn(B, x), "adj_fn": B.adj_fn(B, y), "H": B.H(y), "N": B.N(x)}
        if B.normal_fn is not NamedLinop.normal_fn:
            results["normal_fn"] = B.normal_fn(B, x)
        for name, result in results.items():
            want = wanted[name]
            if result.shape != want.shape or not close(result, want):
                raise LawError(f"{A!r}\n{name} of {how} must return\n{want}, got\n{result}")


def check_dtypes(A: NamedLinop, x: Tensor) -> None:
    """Check that normal operators have the dtype of the operator followed by its adjoint.

    Operators that are linear over the reals only may differ, and those with a zero operator, which
    returns zeros of the dtype of its input.

    Raises
    ------
    LawError
        If a dtype differs.
    """
    if not A.is_complex_linear or any(isinstance(part, Zero) for part in submodules_of(A)):
        return
    expected = A.H(A(x)).dtype
    for name, normal in (("A.N", A.N), ("A.H @ A", A.H @ A)):
        if (dtype := normal(x).dtype) != expected:
            raise LawError(f"{A!r}\n{name}(x) must have the dtype {expected}, got {dtype}")


def adjoint_by_hand(linop: NamedLinop) -> NamedLinop:
    """Return the adjoint, as a copy whose functions are swapped, in the three lines of users."""
    adj = copy.copy(linop)
    adj._shape = adj._shape.H
    adj.fn, adj.adj_fn = adj.adj_fn, adj.fn  # type: ignore[method-assign] # what is checked
    return adj

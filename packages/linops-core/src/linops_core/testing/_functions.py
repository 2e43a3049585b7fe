"""Check of the functions of an operator: ``fn``, ``adj_fn`` and ``normal_fn`` are what they say."""

from __future__ import annotations

import copy

from torch import Tensor

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


def adjoint_by_hand(linop: NamedLinop) -> NamedLinop:
    """Return the adjoint, as a copy whose functions are swapped, in the three lines of users."""
    adj = copy.copy(linop)
    adj._shape = adj._shape.H
    adj.fn, adj.adj_fn = adj.adj_fn, adj.fn  # type: ignore[method-assign] # what is checked
    return adj

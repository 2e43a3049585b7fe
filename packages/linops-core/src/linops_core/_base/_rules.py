"""The rules by which operators are combined, which ``_algebra._rules`` fills in on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from ._linop import NamedLinop


class Rules:
    """What becomes of operators that are combined."""

    compose: Callable[..., NamedLinop]
    """Of operators, first one first."""
    add: Callable[..., NamedLinop]
    scale: Callable[[NamedLinop, complex | Tensor], NamedLinop]
    power: Callable[[NamedLinop, int], NamedLinop]
    conjugate: Callable[[NamedLinop], NamedLinop]
    normal: Callable[[NamedLinop, NamedLinop | None], NamedLinop]
    """Of an operator and what is between it and its adjoint, if anything."""
    solve_shifted: Callable[..., Tensor]
    """Of an operator A, y and lam: x with (A^H A + lam I) x = y."""


rules = Rules()

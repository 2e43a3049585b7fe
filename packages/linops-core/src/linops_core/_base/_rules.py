"""The rules that combine operators; ``_algebra._rules`` sets them on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from ._linop import NamedLinop


class Rules:
    """Functions that combine operators."""

    compose: Callable[..., NamedLinop]
    """Composes operators; the first one is applied first."""
    add: Callable[..., NamedLinop]
    scale: Callable[[NamedLinop, complex | Tensor], NamedLinop]
    power: Callable[[NamedLinop, int], NamedLinop]
    conjugate: Callable[[NamedLinop], NamedLinop]
    normal: Callable[[NamedLinop, NamedLinop | None], NamedLinop]
    """Makes A^H inner A from A and an optional inner operator."""
    as_scipy: Callable[..., LinearOperator]
    """Makes an operator of SciPy from A, sizes, dtype, device and a tensor like the input; set by
    the adapters."""
    solve_shifted: Callable[..., Tensor]
    """Returns x with (A^H A + lam I) x = y for A, y and lam."""


rules = Rules()

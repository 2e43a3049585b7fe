"""The rules by which operators are combined, which the algebra fills in.

The base knows no concrete operator. ``linops_core._algebra._rules`` says here what ``A @ B``,
``A + B``, ``2 * A``, ``A ** 2``, ``A.conj()`` and ``A.normal()`` are, when the package is imported.
"""

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


rules = Rules()

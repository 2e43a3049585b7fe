"""How numbers of the parts of a vector are added up, where a tensor is not all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from nameddim import NamedDimension


@dataclass(frozen=True)
class Processes:
    """The processes that call an operator together, as one of them sees them."""

    number: int
    """Of this process, from 0."""
    count: int
    told: Callable[[object, str], list[object]]
    """Returns what each process says in a step of this name, in their order; all must call it."""


@dataclass(frozen=True)
class Totals:
    """How inner products of parts of a vector become those of the vector.

    An operator over several processes, each of which has a part of its input or output, says it by
    :meth:`NamedLinop.totals`; solvers ask it. Numbers of several vectors are added up at once where
    the functions ``add`` compare equal.
    """

    add: Callable[[Tensor], Tensor] | None = None
    """Returns the sum, over all parts, of a tensor of real numbers. None where a tensor is all of
    the vector."""
    cut: frozenset[NamedDimension] = frozenset()
    """The dimensions along which the vector is cut into parts."""
    part: int = 0
    """The number of the part that this process has."""
    n_parts: int = 1
    processes: Processes | None = None
    """All that call the operator, also where each has all of the vector; None if that is one."""


WHOLE = Totals()
"""That a tensor is all of the vector."""

"""How numbers of the parts of a vector are added up, where a tensor is not all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Totals:
    """How inner products of parts of a vector become those of the vector.

    An operator over several processes, each of which has a part of its input or output, says it by
    :meth:`NamedLinop.totals`; solvers ask it.
    """

    add: Callable[[Tensor], Tensor] | None = None
    """Returns the sum, over all parts, of a tensor of numbers. None where a tensor is all of the
    vector."""


WHOLE = Totals()
"""That a tensor is all of the vector."""

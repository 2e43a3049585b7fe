"""Reductions over the parts of a vector that several processes have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from nameddim import NamedDimension

from ._dimensions import Side
from ._question import Question


@dataclass(frozen=True)
class Processes:
    """The processes that call an operator together."""

    number: int
    """Number of this process, from 0."""
    count: int
    all_gather: Callable[[object, str], list[object]]
    """Gathers an object of each process, in order; all must call it with the name of the step."""


@dataclass(frozen=True)
class Totals:
    """The reduction that turns inner products of parts into inner products of the vector.

    An operator over several processes has it, and solvers use it. Numbers of several vectors go
    into one reduction if their ``add`` functions compare equal.
    """

    add: Callable[[Tensor], Tensor] | None = None
    """Returns the sum of a tensor of real numbers over all parts. None if a tensor is the whole
    vector."""
    cut: frozenset[NamedDimension] = frozenset()
    """The dimensions along which the vector is cut into parts."""
    part: int = 0
    """The number of the part of this process."""
    n_parts: int = 1
    processes: Processes | None = None
    """The processes that call the operator, or None for one process."""

    def total(self, number: Tensor) -> Tensor:
        """Return a number of the vector, given that of this part; itself for a whole vector."""
        if self.add is None:
            return number
        if number.is_complex():
            return torch.view_as_complex(self.add(torch.view_as_real(number)))
        return self.add(number)

    def generator(self, seed: int = 0) -> Generator:
        """Return a different generator for each part of a vector."""
        return Generator().manual_seed((seed + self.part * 0x9E3779B97F4A7C15) % 2**63)


class PartsSideBySide(NotImplementedError):
    """Parts of several vectors stand side by side: a call is right, but sums are not known."""


WHOLE = Totals()
"""The reduction of whole vectors: none."""


@Question.inherited
def is_over_processes(linop: object) -> bool:
    """Return whether the operator or an operand is one over several processes.

    A class that registers an answer to :func:`totals_of` may have compositions checked by it.
    """
    return False


@Question.inherited
def totals_of(linop: object, side: Side) -> Totals | None:
    """Return how sums over the parts of a vector of one side are collected; None for whole vectors.

    A class of operators whose vectors are spread over several processes registers its own.
    """
    return None

"""Operands of compositions in one another, listed when something asks for them.

A sum that is made term by term lists its terms once, and not after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nameddim import NamedDimension

from .._base._linop import NamedLinop

Names: TypeAlias = Mapping[NamedDimension, NamedDimension]
Listing: TypeAlias = Callable[[Iterable[NamedLinop]], Iterable[NamedLinop]]
"""Makes the operands of a composition from the operands of nested ones."""


@dataclass(frozen=True, slots=True)
class PendingOperands:
    """Operands as they were grouped when they were composed, to be renamed when listed."""

    parts: tuple[NamedLinop | PendingOperands, ...]
    names: Names | None = None

    def flat(self) -> Iterator[NamedLinop]:
        """Yield the operands in their order; nests may be deeper than Python calls functions."""
        left: list[tuple[NamedLinop | PendingOperands, Names | None]] = [(self, None)]
        while left:
            part, names = left.pop()
            if isinstance(part, PendingOperands):
                inside = _one_after_the_other(part.names, names)
                left += [(each, inside) for each in reversed(part.parts)]
            else:
                own = {dim: names[dim] for dim in part.dims if dim in names} if names else {}
                yield part.renamed(own) if own else part


def _one_after_the_other(first: Names | None, then: Names | None) -> Names | None:
    """Return the names that two renamings give."""
    if not (first and then):
        return first or then
    return {**then, **{old: then.get(new, new) for old, new in first.items()}}

"""The tensors that an operator reads as a list, and operators that read other tensors."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from linops_core import NamedLinop


def read_by(linop: NamedLinop) -> list[Tensor]:
    """Return the tensors that an operator reads: its own slice of each weight."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    linop.with_weights(note)
    return found


def reading(linop: NamedLinop, tensors: Iterable[Tensor]) -> NamedLinop:
    """Return the operator with other tensors, given in the order of :func:`read_by`."""
    others = iter(tensors)
    return linop.with_weights(lambda _: next(others))

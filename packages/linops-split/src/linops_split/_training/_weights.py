"""The tensors that an operator reads as a list, and operators that read other tensors."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from linops_core import NamedLinop
from linops_core.siblings import PerClass, parts_of


def read_by(linop: NamedLinop) -> list[Tensor]:
    """Return the tensors that an operator reads: its own slice of each weight."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    linop.with_weights(note)
    return found


@PerClass
def held_by(module: nn.Module) -> list[Tensor]:
    """Return the weights that an operator holds, in the order of :func:`read_by`."""
    own = [*module._parameters.values(), *module._buffers.values()]
    found = [tensor for tensor in own if tensor is not None]
    return found + [tensor for part in parts_of(module) for tensor in held_by(part)]


def reading(linop: NamedLinop, tensors: Iterable[Tensor]) -> NamedLinop:
    """Return the operator with other tensors, given in the order of :func:`read_by`."""
    others = iter(tensors)
    return linop.with_weights(lambda _: next(others))

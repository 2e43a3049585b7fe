"""The tensors that an operator reads as a list, and operators that read other tensors."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from linops_core import NamedLinop
from linops_core.questions import Question
from linops_core.siblings import OwnTile, children_of


def tensors_read_by(linop: NamedLinop) -> list[Tensor]:
    """Return the tensors that an operator reads: its own slice of each weight."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    linop.with_weights(note)
    return tensors


@Question.inherited
def weights_held_by(module: nn.Module) -> list[Tensor]:
    """Return the weights that an operator holds, in the order of :func:`tensors_read_by`."""
    tensors = [*module._parameters.values(), *module._buffers.values()]
    weights = [tensor for tensor in tensors if tensor is not None]
    return weights + [tensor for child in children_of(module) for tensor in weights_held_by(child)]


@weights_held_by.register(OwnTile)
def _held_by_whole(linop: OwnTile) -> list[Tensor]:
    """Return the weight of which each tensor of the tile is a view, or the tensor itself."""
    held, weights = weights_held_by.default(linop), []
    for tensor in tensors_read_by(linop):
        bases = (tensor, tensor if tensor._base is None else tensor._base)
        wholes = (w for w in held if any(base is w or base is w._base for base in bases))
        weights.append(next(wholes, tensor))
    return weights


def with_tensors_read(linop: NamedLinop, tensors: Iterable[Tensor]) -> NamedLinop:
    """Return the operator with other tensors, given in the order of :func:`tensors_read_by`."""
    others = iter(tensors)
    return linop.with_weights(lambda _: next(others))

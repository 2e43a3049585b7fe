"""Whether operators still have the weights that they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .._base._linop import NamedLinop
from ._vectors import Operator

_Mark: TypeAlias = tuple[object, ...]


class Fingerprint:
    """The weights of operators, told from others without keeping their memory.

    What a function holds is not seen, but for the module or tensor of a bound method.

    Parameters
    ----------
    owner : str
        The solver, for the error.
    operators : sequence of operators
    """

    def __init__(self, owner: str, operators: Sequence[Operator]) -> None:
        self.owner, self.operators = owner, operators
        self.marks = [_marks(operator) for operator in operators]

    def check(self) -> None:
        """Refuse weights that are not those of the start.

        Raises
        ------
        RuntimeError
            If a weight was replaced, or written to in a way that autograd counts.
        """
        for operator, marks in zip(self.operators, self.marks, strict=True):
            if _marks(operator) != marks:
                name = operator.signature if isinstance(operator, NamedLinop) else "A function"
                raise RuntimeError(
                    f"{self.owner}: the weights of {name} must be those of the solution when its "
                    "gradient is computed, got others; compute it before they change (those given "
                    "to torch.func.functional_call are gone when it returns: call "
                    "torch.autograd.grad in what it calls), or through the steps, by "
                    "conjugate_gradients with implicit=False"
                )


def _marks(operator: Operator) -> list[_Mark]:
    held = getattr(operator, "__self__", operator)
    if isinstance(held, torch.nn.Module):
        return [_mark(tensor) for tensor in (*held.parameters(), *held.buffers())]
    return [_mark(held)] if isinstance(held, Tensor) else []


def _mark(tensor: Tensor) -> _Mark:
    version = None if tensor.is_inference() else tensor._version
    if tensor.layout is torch.strided:
        numbers = tensor
    else:
        numbers = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    # An address may be given anew once its memory is free; that of a storage is not, as long as
    # something refers to it, even weakly. And p.data = ... changes neither p nor its version.
    storage = StorageWeakRef(numbers.untyped_storage())  # type: ignore[no-untyped-call]
    place = (numbers.storage_offset(), numbers.shape, numbers.stride(), numbers.dtype)
    return (id(tensor), version, storage, place, numbers.is_conj(), numbers.is_neg())

"""Detection of changes of tensors, without keeping their memory and without reading them.

Torch does not count writes to tensors made in inference mode, writes of fused optimizers, and
writes through another owner of the memory, such as ``tensor.data`` or a NumPy array. They are not
detected.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

_Look: TypeAlias = tuple[object, ...]


class TensorState:
    """The state of tensors: which objects they are, where they lie, and their version counters.

    Examples
    --------
    >>> weight = torch.ones(3)
    >>> state = TensorState(weight)
    >>> state.is_current(weight), state.is_current(weight.clone())
    (True, False)
    >>> _ = weight.mul_(2)
    >>> state.is_current(weight)
    False
    """

    __slots__ = ("_looks", "_storages", "counts_writes")

    def __init__(self, *tensors: Tensor) -> None:
        self.counts_writes = not any([tensor.is_inference() for tensor in tensors])
        self._looks = [_look_of(tensor) for tensor in tensors]
        # A weak reference to the storage keeps its identity unique.
        # A weak reference to the tensor would prevent its move to another device.
        storages = [_values_of(tensor).untyped_storage() for tensor in tensors]
        self._storages = [StorageWeakRef(storage) for storage in storages]

    def is_current(self, *tensors: Tensor) -> bool:
        """Return whether the tensors are the same, in the same memory, without a new write."""
        return [_look_of(tensor) for tensor in tensors] == self._looks


def writes_are_counted(*tensors: Tensor) -> bool:
    """Return whether torch counts all writes, so that :class:`TensorState` shows them.

    It does not count those of fused optimizers, which write to what has or had a gradient, nor
    those to tensors made in inference mode.
    """
    return not any([t.requires_grad or t.is_inference() or t.grad is not None for t in tensors])


def _look_of(tensor: Tensor) -> _Look:
    values = tensor if tensor.layout is torch.strided else _values_of(tensor)
    return (
        # Not only the storage: a tensor made by `.data` shares the storage, with another counter.
        id(tensor),
        None if tensor.is_inference() else tensor._version,
        values.untyped_storage()._cdata,  # `tensor.data = ...` changes this but not the version
        values.storage_offset(),
        values.shape,
        values.stride(),
        values.dtype,
        values.is_conj(),
        values.is_neg(),
    )


def _values_of(tensor: Tensor) -> Tensor:
    """Return the values of a sparse tensor, which has no storage; any other tensor itself."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()

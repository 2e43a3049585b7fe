"""Values kept while memory has the same numbers, and whether values can be kept at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from linops_core import Cache
from linops_core.siblings import FakeTensor, is_plain, writes_are_counted

Value = TypeVar("Value")
Key: TypeAlias = tuple[object, ...]


class KeptByContent(Cache, Generic[Value]):
    """Values computed from tensors, kept while memory has the same numbers, and freed with it.

    Torch does not count writes of some optimizers, nor writes in compiled graphs. So numbers are
    compared with a copy; the fingerprint by which linops-multigpu sees such writes to weights on
    other devices takes 14 times as long.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._values = WeakKeyDictionary[torch.UntypedStorage, dict[Key, tuple[Tensor, Value]]]()

    def get_or_make(self, tensor: Tensor, how: Key, make: Callable[[], Value]) -> Value:
        """Return the value for the numbers of a tensor; ``make`` computes it if none is kept."""
        key = (*view_key(tensor), tensor.dtype, how)
        with self._lock, torch.inference_mode(False), torch.no_grad():
            values = self._values.setdefault(tensor.untyped_storage(), {})
            if key in values and not _are_equal(values[key][0], tensor):
                values.clear()
            if key not in values:
                values[key] = tensor.clone(), make()
            return values[key][1]


def _are_equal(copy: Tensor, tensor: Tensor) -> bool:
    return isinstance(tensor, FakeTensor) or torch.equal(copy, tensor)


def may_be_kept(x: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Return whether changes of the tensors are noticed, and no transform records what is done."""
    # In memory planning x and the tensors are of one class without data.
    kinds = (Tensor, torch.nn.Parameter, type(tensors[0]))
    return (
        is_plain(*tensors) and writes_are_counted(*tensors) and type(x) in kinds and not x.is_meta
    )


def view_key(view: Tensor) -> Key:
    """Return the offset, shape and strides of a view in its storage."""
    return view.storage_offset(), view.shape, view.stride()

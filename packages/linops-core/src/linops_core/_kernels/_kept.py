"""Values computed from tensors and kept until these change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Generic, Self, TypeVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._accumulate import writing_is_safe
from ._alike import Cache
from ._changes import TensorState
from ._torch_state import FakeTensor, has_storage, is_in_fake_mode, is_in_forward_mode

Made = TypeVar("Made")

# Devices on which values are kept; on others they are computed in each call.
_DEVICES = ("cpu", "cuda")

_WITH_DATA = Tensor, torch.nn.Parameter


class Kept(Cache, Generic[Made]):
    """Values computed from some tensors, kept until these change. A copy starts empty."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state: TensorState | None = None
        self._values: dict[Hashable, Made] = {}
        self._parts = WeakValueDictionary[Hashable, Kept[Made]]()

    def part(self, key: Hashable) -> Kept[Made]:
        """Return where to keep the values of a part of the tensors; tiles with one key share it."""
        with self._lock:
            return self._parts.setdefault(key, Kept())

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def of(
        self,
        tensors: Sequence[Tensor],
        key: Hashable,
        make: Callable[[], Made],
        *,
        is_only: bool = False,
    ) -> Made:
        """Return ``make()`` for the current tensors, computed once for each key.

        With ``is_only``, no values for other keys are kept beside this one.
        """
        with self._lock:
            value = self.current(tensors, key)
            if value is None:
                wait_for(*tensors)
                if is_only or self._state is None or not self._state.is_current(*tensors):
                    self._values.clear()  # freed before the new one is made
                with torch.inference_mode(False), torch.no_grad():
                    self._state, value = TensorState(*tensors), make()
                wait_for(*tensors)
                self._values[key] = value
            return value

    def current(self, tensors: Sequence[Tensor], key: Hashable) -> Made | None:
        """Return the value if it was made for the tensors as they are now, else None."""
        if self._state is None or not self._state.is_current(*tensors):
            return None
        return self._values.get(key)


def is_plain(*tensors: Tensor) -> bool:
    """Whether no transform, mode or subclass but autograd acts on tensors on a usual device.

    During memory planning, tensors without data count like those that they represent.
    """
    if not writing_is_safe():
        return False
    # In a mode without data, results have no data either.
    kinds = (FakeTensor,) if is_in_fake_mode() else _WITH_DATA
    return _are_plain(kinds, tensors) and all([t.device.type in _DEVICES for t in tensors])


def can_read_values(*tensors: Tensor) -> bool:
    """Whether values may be read: no transform, mode or subclass but autograd acts on tensors."""
    is_plain_data = writing_is_safe() and _are_plain(_WITH_DATA, tensors)
    return is_plain_data and not any([t.is_meta for t in tensors])


def _are_plain(kinds: tuple[type, ...], tensors: Sequence[Tensor]) -> bool:
    has_tangents = is_in_forward_mode()
    return all(
        [
            type(t) in kinds
            and not (has_tangents and forward_ad.unpack_dual(t).tangent is not None)
            and has_storage(t)  # a batch of gradients has none
            for t in tensors
        ]
    )


def wait_for(*tensors: Tensor) -> None:
    """Wait for the current stream on the host, so that other streams can use the result."""
    for tensor in tensors:
        if tensor.device.type not in ("cpu", "meta") and not isinstance(tensor, FakeTensor):
            tensor.detach()[(slice(1),) * tensor.ndim].cpu()

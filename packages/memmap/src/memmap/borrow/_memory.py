"""Managed memory: values as tensors, and the owner of each byte."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from .._errors import OwnershipError
from .._modules._at_once import Call, attribute_set
from .._views._address import view_of
from .._views._arrays import Array
from .._views._overlap import has_internal_overlap, overlaps
from .._views._view import View

Value: TypeAlias = Array | torch.Tensor
"""The types of values that users pass and get."""


class _Held(NamedTuple):
    """The memory of an owner. It is replaced as a whole, so that no interrupt leaves half of it."""

    tensor: torch.Tensor
    is_borrowed: bool
    view: View


_lock = threading.RLock()
_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


class Owner:
    """An owner of memory: a shared variable, or a borrowed output of a function.

    Borrowed memory is refused if any byte of it has another owner. All other memory must be new.
    """

    def __init__(self, name: str, tensor: torch.Tensor, is_borrowed: bool = False) -> None:
        self.name = name
        self._take(tensor, is_borrowed)

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor whose memory it owns."""
        return self._held.tensor

    @property
    def borrowed(self) -> bool:
        """Whether the memory was borrowed from the user."""
        return self._held.is_borrowed

    def _take(self, tensor: torch.Tensor, is_borrowed: bool) -> None:
        """Own the memory of a tensor instead of the memory owned before."""
        with _lock:
            other = owner_of(tensor, besides=self) if is_borrowed else None
            if other is not None:
                raise OwnershipError(
                    f"{self}: memory must have one owner, got memory that belongs to {other}"
                )
            self._held = _Held(tensor, is_borrowed, view_of(tensor))
            _owners.add(self)

    def _take_new(self, tensor: torch.Tensor) -> Call:
        """The call that makes the owner own new memory."""
        return attribute_set(self, "_held", _Held(tensor, False, view_of(tensor)), None)[0]

    def __str__(self) -> str:
        return self.name


def owner_of(tensor: torch.Tensor, besides: Owner | None = None) -> Owner | None:
    """An owner of a byte of a tensor; None if no byte has an owner."""
    view = view_of(tensor)
    with _lock:
        for owner in _owners:
            if owner is not besides and overlaps(owner._held.view, view):
                return owner
    return None


def as_tensor(owner: str, value: Value) -> tuple[torch.Tensor, bool]:
    """A value as a tensor without history, and whether it still has the memory of the value.

    Arrays are copied if they are read-only, or have negative strides or a foreign byte order.
    `owner` starts the error message if the value cannot be a tensor.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError(f"{owner}: a tensor must be strided, got layout {value.layout}")
        return value.detach(), True
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{owner}: the value must be a NumPy array or a tensor, got {type(value).__name__}"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{owner}: an array must have no mask, got a {type(value).__name__}")
    can_alias = (
        value.flags.writeable
        and value.flags.aligned
        and value.dtype.isnative
        and all(stride >= 0 and stride % value.itemsize == 0 for stride in value.strides)
    )
    if not can_alias:
        value = np.array(value, dtype=value.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(value), can_alias
    except TypeError as error:
        raise TypeError(f"{owner}: torch must have the dtype, got {value.dtype}") from error


def copied(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """The values in new memory, where no two elements share a byte."""
    layout = torch.contiguous_format if has_internal_overlap(tensor) else torch.preserve_format
    return tensor.to(device or tensor.device, copy=True, memory_format=layout)


def is_writable(tensor: torch.Tensor) -> bool:
    """Whether torch can write any values to a tensor."""
    # Outside of inference mode, torch refuses writes to tensors that were made in it.
    return not (tensor.is_inference() or has_internal_overlap(tensor))

"""Managed memory: values taken into it, and who owns which bytes of it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from .._modules._at_once import Call, attribute_set
from .._views._address import view_of
from .._views._arrays import Array
from .._views._layout import Layout
from .._views._overlap import has_internal_overlap, layouts_overlap

Value: TypeAlias = Array | torch.Tensor
"""What users hold."""


class OwnershipError(ValueError):
    """Memory was offered to one owner that belongs to another one."""


class _Held(NamedTuple):
    """What an owner holds. It is exchanged as a whole, so that no interrupt finds half of it."""

    tensor: torch.Tensor
    is_borrowed: bool
    space: Hashable
    layout: Layout | None

    @classmethod
    def of(cls, tensor: torch.Tensor, is_borrowed: bool) -> _Held:
        view = view_of(tensor)
        return cls(tensor, is_borrowed, view.space, view.layout())


_lock = threading.RLock()
_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


class Owner:
    """A shared variable, or a borrowed output of a function: what owns memory.

    Borrowed memory is refused if a byte of it has another owner; all other memory must be new.
    """

    def __init__(self, name: str, tensor: torch.Tensor, is_borrowed: bool = False) -> None:
        self.name = name
        self._take(tensor, is_borrowed)

    @property
    def tensor(self) -> torch.Tensor:
        """What it owns the memory of."""
        return self._held.tensor

    @property
    def borrowed(self) -> bool:
        """Whether it was given the memory."""
        return self._held.is_borrowed

    def _take(self, tensor: torch.Tensor, is_borrowed: bool) -> None:
        """Own the memory of a tensor, and no longer what was owned before."""
        with _lock:
            other = owner_of(tensor, besides=self) if is_borrowed else None
            if other is not None:
                raise OwnershipError(
                    f"{self}: memory must have one owner, got memory that belongs to {other}"
                )
            self._held = _Held.of(tensor, is_borrowed)
            _owners.add(self)

    def _take_new(self, tensor: torch.Tensor) -> Call:
        """The call that makes the owner take new memory."""
        return attribute_set(self, "_held", _Held.of(tensor, False), None)[0]

    def __str__(self) -> str:
        return self.name


def owner_of(tensor: torch.Tensor, besides: Owner | None = None) -> Owner | None:
    """The owner of some byte of a tensor, or one of several; None if every byte is free."""
    wanted = _Held.of(tensor, False)
    if wanted.layout is None:
        return None
    with _lock:
        for owner in _owners:
            held = owner._held
            if owner is not besides and held.layout is not None and held.space == wanted.space:
                if layouts_overlap(held.layout, wanted.layout):
                    return owner
    return None


def as_tensor(what: str, value: Value) -> tuple[torch.Tensor, bool]:
    """A value as a tensor without history, and whether that is the value's own memory.

    It is not for arrays that are read-only, or have negative strides or a foreign byte order.
    `what` begins the error if the value cannot be a tensor.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError(f"{what}: a tensor must be strided, got layout {value.layout}")
        return value.detach(), True
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{what}: the value must be a NumPy array or a tensor, got {type(value).__name__}"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what}: an array must have no mask, got a {type(value).__name__}")
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
        raise TypeError(f"{what}: torch must have the dtype, got {value.dtype}") from error


def copied(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """The values in new memory, of which no two elements share a byte."""
    layout = torch.contiguous_format if has_internal_overlap(tensor) else torch.preserve_format
    return tensor.to(device or tensor.device, copy=True, memory_format=layout)


def check_flag(what: str, flag: bool) -> None:
    """Refuse a flag that is no truth value."""
    if not isinstance(flag, bool):
        raise TypeError(f"{what} must be True or False, got {flag!r}")

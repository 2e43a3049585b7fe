"""The copy of a tensor, for as long as the tensor is what was copied."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._modules._traverse import Found
from .._views._address import view_of
from .._views._view import View
from ._plan import plan_of


class Copied:
    """The copy of a tensor, and what the tensor was when it was copied."""

    def __init__(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        self.source = source  # so that no other object gets its id
        self.copy = copy
        self._look = _look_of(source)
        # These hold the identities of storages, so that no other storage gets one.
        self._storages = [StorageWeakRef(storage) for storage in _storages_of(source)]  # type: ignore[no-untyped-call]  # of torch

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is still what was copied, whatever its values are."""
        return self._look == _look_of(tensor)


def _look_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """All that a copy of a tensor takes over, but values and attributes."""
    look: list[object] = [type(tensor), tensor.requires_grad, tensor.device, tensor.dtype]
    for part, view in _parts_of(tensor):
        look += [part.dtype, part.untyped_storage()._cdata, view]
    gradient = tensor.grad if tensor.is_leaf else None
    return *look, None if gradient is None else _look_of(gradient)


def _storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    parts = _parts_of(tensor)
    if tensor.is_leaf and tensor.grad is not None:
        parts += _parts_of(tensor.grad)
    return [part.untyped_storage() for part, _ in parts]


def _parts_of(tensor: torch.Tensor) -> list[tuple[torch.Tensor, View]]:
    """The strided tensors that a tensor is made of, and where they lie."""
    with suppress(TypeError):
        return [(tensor, view_of(tensor))]
    groups = plan_of([Found(tensor, None, True)], detach=True).groups
    return [(piece.tensor, piece.view) for group in groups for piece in group.pieces]

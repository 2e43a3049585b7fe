"""Copies of operators on another device, which are kept up to date."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from linops_core import NamedLinop
from memmap import ModuleMemoryMap


class Replica:
    """Operators as they are, copied to one device together.

    They are sent as one, so what they share arrives once. When a tensor of one that is asked
    for has been written to, replaced or cast, all are sent again: into new memory, because
    autograd may hold on to the old.

    Parameters
    ----------
    sources : sequence of NamedLinop
        They stay where they are.
    device : torch.device
    """

    def __init__(self, sources: Sequence[NamedLinop], device: torch.device) -> None:
        self._sources = tuple(sources)
        self._device = device
        self._copies: list[NamedLinop] = []
        self._snapshots: list[_Snapshot] = []
        self._send()

    def copy_of(self, position: int) -> NamedLinop:
        """Return the copy of a source with the values that its tensors have now."""
        if not (self._snapshots and self._snapshots[position].shows(self._sources[position])):
            self._send()
        return self._copies[position]

    def _send(self) -> None:
        # What is outdated goes first, so that the device never has to hold both.
        self._copies, self._snapshots = [], []
        # Tensors made in inference mode could never be used with autograd.
        with torch.inference_mode(False), torch.no_grad():
            snapshots = [_Snapshot(source) for source in self._sources]
            parts = nn.ModuleList(source.with_weights(Tensor.detach) for source in self._sources)
            copies = ModuleMemoryMap().copy_to(parts, self._device)
        self._copies, self._snapshots = [cast(NamedLinop, copy) for copy in copies], snapshots

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the copies, which are made again where they are used."""
        return {**vars(self), "_copies": [], "_snapshots": []}


class ReplicaPart:
    """One copy of a replica, or what is derived from it: returned up to date when called.

    Parameters
    ----------
    origin : function
        Returns the copy to derive from, the same one while it is up to date.
    derive : function
    """

    def __init__(
        self,
        origin: Callable[[], NamedLinop],
        derive: Callable[[NamedLinop], NamedLinop],
    ) -> None:
        self._origin = origin
        self._derive = derive
        # By a weak key, not to keep an outdated copy in the memory of the device.
        self._derived = weakref.WeakKeyDictionary[NamedLinop, NamedLinop]()

    def __call__(self) -> NamedLinop:
        """Return what is derived from the copy as it is now."""
        origin = self._origin()
        derived = self._derived.get(origin)
        if derived is None:
            derived = self._derive(origin)
            self._derived.clear()
            self._derived[origin] = derived
        return derived

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without what was derived."""
        return type(self), (self._origin, self._derive)


def tensors_of(module: nn.Module) -> Iterator[Tensor]:
    """Yield the tensors of a module and its parts, those of a part used twice twice."""
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None:
            yield tensor
    for child in module._modules.values():
        if child is not None:
            yield from tensors_of(child)


class _Snapshot:
    """The tensors of an operator at one moment, as far as a change of them can be told."""

    def __init__(self, linop: NamedLinop) -> None:
        self._seen = [(weakref.ref(tensor), _marks(tensor)) for tensor in tensors_of(linop)]

    def shows(self, linop: NamedLinop) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        tensors = list(tensors_of(linop))
        return len(tensors) == len(self._seen) and all(
            # Of a tensor made in inference mode nobody counts the writes.
            not tensor.is_inference() and seen() is tensor and marks == _marks(tensor)
            for tensor, (seen, marks) in zip(tensors, self._seen, strict=True)
        )


def _marks(tensor: Tensor) -> tuple[object, ...]:
    version = None if tensor.is_inference() else tensor._version
    # `data = ` changes the storage and not the version. A weak reference, because the address of
    # a storage that was freed is soon that of another.
    storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
    layout = (tensor.storage_offset(), tensor.shape, tensor.stride())
    return version, storage, *layout, tensor.dtype, tensor.device

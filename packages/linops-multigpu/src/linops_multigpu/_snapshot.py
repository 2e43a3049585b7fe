"""Whether the tensors of operators are what they were."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ._contents import fingerprint, has_contents, version_counters_are_trusted
from ._weights import modules_of


class Snapshot:
    """The tensors of operators at one moment.

    To compare takes a microsecond or so for a dictionary of a module, of which tiles share most,
    and for a tensor. Then their contents are compared, once a call, because torch does not count
    all writes: this takes as long as to read them (see :func:`trust_version_counters`).

    Parameters
    ----------
    modules : iterable of nn.Module
    device : torch.device, optional
        The contents of tensors on it are not compared: those that are used there as they are.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device | None = None) -> None:
        slots: dict[int, _Slots] = {}
        tensors: dict[int, _Seen] = {}
        for module in (part for whole in modules for part in modules_of(whole)):
            for held in (module._parameters, module._buffers, module._modules):
                if held and id(held) not in slots:
                    slots[id(held)] = _Slots(held)
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None and id(tensor) not in tensors:
                    tensors[id(tensor)] = _Seen(tensor, device)
        self._slots, self._tensors = [*slots.values()], [*tensors.values()]

    def shows(self) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        return (
            all(slots.are_same() for slots in self._slots)
            and all(seen.looks_same() for seen in self._tensors)
            and (version_counters_are_trusted() or all(seen.holds_same() for seen in self._tensors))
        )

    def recorded(self) -> tuple[bool, ...]:
        """Return of each tensor whether autograd follows it now."""
        return tuple([seen.requires_grad() for seen in self._tensors])


class _Slots:
    """A dictionary of a module, and the objects that were in it."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held
        self._seen = [None if value is None else weakref.ref(value) for value in held.values()]

    def are_same(self) -> bool:
        held = self._held
        if len(held) != len(self._seen):
            return False
        for value, seen in zip(held.values(), self._seen, strict=True):
            if value is not (None if seen is None else seen()):
                return False
        return True


class _Seen:
    """A tensor, and how it looked."""

    def __init__(self, tensor: Tensor, device: torch.device | None) -> None:
        self._tensor = weakref.ref(tensor)
        # `data = ` changes the storage and not the version. A weak reference, because the address
        # of a storage that was freed is soon that of another.
        self._storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._look = _look_of(tensor)
        is_compared = tensor.device != device and has_contents(tensor)
        self._contents = fingerprint(tensor) if is_compared else None

    def looks_same(self) -> bool:
        tensor = self._tensor()
        return (
            tensor is not None
            # Of a tensor made in inference mode nobody counts the writes.
            and not tensor.is_inference()
            and tensor.untyped_storage()._cdata == self._storage.cdata
            and _look_of(tensor) == self._look
        )

    def holds_same(self) -> bool:
        tensor = self._tensor()
        return tensor is not None and (
            self._contents is None
            or not has_contents(tensor)
            or fingerprint(tensor) == self._contents
        )

    def requires_grad(self) -> bool:
        tensor = self._tensor()
        return tensor is not None and tensor.requires_grad


def _look_of(tensor: Tensor) -> tuple[object, ...]:
    version = None if tensor.is_inference() else tensor._version
    layout = tensor.storage_offset(), tensor.shape, tensor.stride()
    return version, *layout, tensor.dtype, tensor.device

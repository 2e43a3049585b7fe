"""Memory of the host that devices copy to and from while the host goes on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from .._order._shadow import Shadow
from ._memory import POISON


@dataclass
class HostStorage:
    """A storage of the host that is pinned, or that a device has used."""

    alive: weakref.ref[torch.UntypedStorage]
    address: int
    nbytes: int
    shadow: Shadow
    is_pinned: bool = False


class HostMemory:
    """Which memory of the host is pinned, and what was done to what devices use."""

    def __init__(self) -> None:
        self._known: list[HostStorage] = []

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return pinned memory for a contiguous copy of ``like``."""
        made = torch.empty(like.shape, dtype=like.dtype)
        self.pin(made)
        return made

    def pin(self, fresh: Tensor) -> None:
        """Count the storage of ``fresh`` as pinned, and fill it with poison."""
        # What was not copied there yet must not pass for it.
        torch.empty(0, dtype=torch.uint8).set_(fresh.untyped_storage()).fill_(POISON)
        self.track(fresh).is_pinned = True

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether a device copies to and from ``tensor`` while the host goes on."""
        found = self.find(tensor)
        return found is not None and found.is_pinned

    def track(self, tensor: Tensor) -> HostStorage:
        """Return what was done to the storage of ``tensor``; from now on it is known."""
        found = self.find(tensor)
        if found is None:
            storage = tensor.untyped_storage()
            address, nbytes = storage.data_ptr(), storage.nbytes()
            found = HostStorage(weakref.ref(storage), address, nbytes, Shadow(nbytes, "cpu"))
            self._known.append(found)
        return found

    def find(self, tensor: Tensor) -> HostStorage | None:
        """Return what was done to the storage of ``tensor``, if it is known."""
        self._known = [storage for storage in self._known if storage.alive() is not None]
        address = tensor.data_ptr()
        for storage in self._known:
            if storage.address <= address < storage.address + storage.nbytes:
                return storage
        return None

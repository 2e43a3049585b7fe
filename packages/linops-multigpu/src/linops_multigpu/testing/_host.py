"""Memory of the host that devices copy to and from while the host goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ._allocator import POISON
from ._shadow import Shadow


class TrackedStorage(NamedTuple):
    """A storage of the host that a device has used."""

    alive: StorageWeakRef
    address: int
    nbytes: int
    shadow: Shadow


class HostMemory:
    """Which memory of the host is pinned, and what was done to what devices have used."""

    def __init__(self) -> None:
        self._tracked: list[TrackedStorage] = []
        self._pinned: list[tuple[StorageWeakRef, int, int]] = []

    def empty_pinned(self, like: Tensor) -> Tensor:
        """Return pinned memory for a contiguous copy of ``like``."""
        made = torch.empty(like.shape, dtype=like.dtype)
        self.pin(made)
        return made

    def pin(self, fresh: Tensor) -> None:
        """Count the storage of ``fresh`` as pinned, and fill it with poison."""
        storage = fresh.untyped_storage()
        # What was not copied there yet must not pass for it.
        torch.empty(0, dtype=torch.uint8).set_(storage).fill_(POISON)
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # of torch
        self._pinned.append((reference, storage.data_ptr(), storage.nbytes()))

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether a device copies to and from ``tensor`` while the host goes on."""
        self._pinned = [entry for entry in self._pinned if not _is_gone(entry[0])]
        address = tensor.data_ptr()
        return any(start <= address < start + nbytes for _, start, nbytes in self._pinned)

    def track(self, tensor: Tensor) -> TrackedStorage:
        """Return what was done to the storage of ``tensor``; from now on it is known."""
        found = self.tracked(tensor)
        if found is None:
            storage = tensor.untyped_storage()
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # of torch
            nbytes = storage.nbytes()
            found = TrackedStorage(reference, storage.data_ptr(), nbytes, Shadow(nbytes))
            self._tracked.append(found)
        return found

    def tracked(self, tensor: Tensor) -> TrackedStorage | None:
        """Return what was done to the storage of ``tensor`` if a device has used it."""
        if not self._tracked:
            return None
        self._tracked = [entry for entry in self._tracked if not _is_gone(entry.alive)]
        address = tensor.data_ptr()
        for entry in self._tracked:
            if entry.address <= address < entry.address + entry.nbytes:
                return entry
        return None


def _is_gone(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]  # of torch


def host_tensors(values: Iterable[object]) -> Iterator[Tensor]:
    """Yield the tensors on the host that have addresses."""
    for value in values:
        if (
            isinstance(value, Tensor)
            and value.device.type == "cpu"
            and value.layout == torch.strided
            and value.numel()
        ):
            yield value

"""Copies of operators on another device that are kept up to date."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from linops_core import NamedLinop
from linops_core.siblings import is_transformed, made_once_per_call, one_call
from linops_split.siblings import tensors_read_by, with_tensors_read
from memmap import ModuleMemoryMap

from .._devices._streams import Stream, backend_of, recorded_on
from ._broadcast import Broadcast, with_weights_sent
from ._snapshot import Snapshot

# One thread at a time, so that outdated weights are sent once if two threads find them.
_SENDING = threading.RLock()


class Replica:
    """Operators that are copied to one device together.

    They are sent as one module, so shared weights arrive once. Weights on the device already are
    not copied. If a tensor was written to, replaced or cast, all are sent again, into new memory,
    because autograd may still hold the old.
    """

    def __init__(self, sources: Sequence[NamedLinop], device: torch.device) -> None:
        self._sources = tuple(sources)
        self._device = device
        self._copies: CopiedOperators | None = None
        self.current_copies()

    def copy_of(self, position: int) -> NamedLinop:
        """Return the copy of a source with the current values of its tensors.

        Within a call (:func:`one_call`), the copies are checked only once, for all sources.
        """
        if is_transformed():
            return with_weights_sent(self._sources[position], self._device)
        # Separately for each stream, because each waits for what was sent before.
        stream = backend_of(self._device).current_stream(self._device)
        key = self, torch.is_grad_enabled(), stream
        return made_once_per_call(key, self._linops)[position]

    def current_copies(self) -> CopiedOperators:
        """Return the up-to-date copies of all sources."""
        with _SENDING:
            if self._copies is None or not self._copies.snapshot.is_current():
                # Free the outdated copies first, so that the device never holds both.
                self._copies = None
                self._copies = CopiedOperators(self._sources, self._device)
            self._copies.use()
            return self._copies

    def _linops(self) -> list[NamedLinop]:
        copies = self.current_copies()
        if torch.is_grad_enabled() and any(copies.snapshot.requires_grad()):
            return copies.broadcast().linops()
        return copies.linops

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the copies, which are made again when needed."""
        return {**vars(self), "_copies": None}


class CopiedOperators:
    """Copies of the tensors that operators read, with the operators that read the copies."""

    def __init__(self, sources: Sequence[NamedLinop], device: torch.device) -> None:
        self._sources, self._device, self._backend = sources, device, backend_of(device)
        # Tensors made in inference mode could never be used with autograd.
        with torch.inference_mode(False), torch.no_grad(), one_call():
            self.snapshot = Snapshot(sources, device)
            given = [tensors_read_by(source) for source in sources]
            # Once, so that tiles that share a weight share its copy, and what is kept of it.
            detached = {id(tensor): tensor.detach() for tensors in given for tensor in tensors}
            read = [[detached[id(tensor)] for tensor in tensors] for tensors in given]
            copies = _copies_on_device([tensor for tensors in read for tensor in tensors], device)
            self._tensors = [[copies[id(tensor)] for tensor in tensors] for tensors in read]
            self.linops = list(map(with_tensors_read, sources, self._tensors))
        stream = self._backend.current_stream(device)
        self._arrived = recorded_on(stream, self._backend)
        self._users: list[Stream] = [stream]
        self._broadcasts: dict[tuple[bool, ...], Broadcast] = {}

    def broadcast(self) -> Broadcast:
        """Return the object that connects gradients of the copies to the sources."""
        key = self.snapshot.requires_grad()
        broadcast = self._broadcasts.get(key)
        if broadcast is None:
            broadcast = Broadcast(zip(self._sources, self._tensors, strict=True))
            if broadcast.can_be_kept:
                self._broadcasts[key] = broadcast
        return broadcast

    def use(self) -> None:
        """Make the copies available to the current stream of the device."""
        stream = self._backend.current_stream(self._device)
        if stream in self._users:
            return
        stream.wait_event(self._arrived)
        for tensor in (tensor for tensors in self._tensors for tensor in tensors):
            self._backend.record_use(tensor, stream)
        self._users.append(stream)


def _copies_on_device(tensors: Sequence[Tensor], device: torch.device) -> dict[int, Tensor]:
    """Return the tensors on a device, by the id of the original tensor."""
    away = nn.Module()
    for number, tensor in enumerate(tensors):
        if not is_on(tensor, device):
            away.register_buffer(str(number), tensor)
    copies = {id(tensor): tensor for tensor in tensors}
    moved = ModuleMemoryMap().copy_to(away, device)
    for name, copy in moved.named_buffers(remove_duplicate=False):
        copies[id(tensors[int(name)])] = copy
    return copies


def is_on(tensor: Tensor, device: torch.device) -> bool:
    """Whether a tensor is on the device already."""
    return tensor.device == device


class ReplicaMember:
    """A function that returns one copy of a replica, or an operator derived from it, up to date."""

    def __init__(
        self,
        replica: Replica,
        position: int,
        steps: tuple[Callable[[NamedLinop], NamedLinop], ...] = (),
    ) -> None:
        self.replica, self._position, self._steps = replica, position, steps
        # The key is weak, so that outdated copies do not stay in the memory of the device.
        self._derived = weakref.WeakKeyDictionary[NamedLinop, NamedLinop]()

    def derived(self, derive: Callable[[NamedLinop], NamedLinop]) -> ReplicaMember:
        """Return the function for an operator derived in one more step."""
        return ReplicaMember(self.replica, self._position, (*self._steps, derive))

    def __call__(self) -> NamedLinop:
        """Return the derived operator of the current copy."""
        origin = self.replica.copy_of(self._position)
        derived = self._derived.get(origin)
        if derived is None:
            derived = reduce(lambda linop, derive: derive(linop), self._steps, origin)
            self._derived.clear()
            if derived is not origin:
                self._derived[origin] = derived
        return derived

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the derived operators."""
        return type(self), (self.replica, self._position, self._steps)

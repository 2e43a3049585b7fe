"""Copies of operators on another device, which are kept up to date."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from linops_core import NamedLinop
from linops_split.execution import read_by, reading
from memmap import ModuleMemoryMap

from .._devices._streams import Stream, backend_of, recorded_on
from .._execution._call import once_a_call, one_call
from ._broadcast import Broadcast, is_transformed, sent_by_itself
from ._snapshot import Snapshot

# One at a time: what two threads find to be outdated is sent once.
_SENDING = threading.RLock()


class Replica:
    """Operators as they are, copied to one device together.

    They are sent as one, so what they share arrives once; what is there already is not copied.
    When a tensor of one has been written to, replaced or cast, all are sent again: into new
    memory, because autograd may hold on to the old.
    """

    def __init__(self, sources: Sequence[NamedLinop], device: torch.device) -> None:
        self._sources = tuple(sources)
        self._device = device
        self._copies: Copies | None = None
        self.now()

    def copy_of(self, position: int) -> NamedLinop:
        """Return the copy of a source with the values that its tensors have now.

        Whether they are those that were sent is found out once a call (:func:`one_call`) for all.
        """
        if is_transformed():
            return sent_by_itself(self._sources[position], self._device)
        # For each stream: it waits for what was sent, and what is sent now is sent on it.
        stream = backend_of(self._device).current_stream(self._device)
        of_call = once_a_call(
            (self, torch.is_grad_enabled(), stream), lambda: self._linops(range(len(self._sources)))
        )
        return self._linops([position])[0] if of_call is None else of_call[position]

    def now(self, positions: Sequence[int] | None = None) -> Copies:
        """Return the copies of all sources; those at the positions, or all, are up to date."""
        with _SENDING:
            if self._copies is None or not self._copies.show(positions):
                # What is outdated goes first, so that the device never has to hold both.
                self._copies = None
                self._copies = Copies(self._sources, self._device)
            self._copies.use()
            return self._copies

    def _linops(self, positions: Sequence[int]) -> list[NamedLinop]:
        copies = self.now(positions)
        if torch.is_grad_enabled() and any(copies.recorded()):
            return copies.broadcast(positions).linops()
        return [copies.linops[position] for position in positions]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the copies, which are made again where they are used."""
        return {**vars(self), "_copies": None}


class Copies:
    """What operators read, as it was when it was sent, and the operators that read it there."""

    def __init__(self, sources: Sequence[NamedLinop], device: torch.device) -> None:
        self._sources, self._device, self._backend = sources, device, backend_of(device)
        # Tensors made in inference mode could never be used with autograd.
        with torch.inference_mode(False), torch.no_grad(), one_call():
            self._snapshot = Snapshot(sources, device)
            self._snapshots = [Snapshot([source], device) for source in sources]
            read = [[tensor.detach() for tensor in read_by(source)] for source in sources]
            there = _sent([tensor for tensors in read for tensor in tensors], device)
            self._tensors = [[there[id(tensor)] for tensor in tensors] for tensors in read]
            self.linops = list(map(reading, sources, self._tensors))
        stream = self._backend.current_stream(device)
        self._arrived = recorded_on(stream, self._backend)
        self._users: list[Stream] = [stream]
        self._broadcasts: dict[tuple[object, ...], Broadcast] = {}

    def show(self, positions: Sequence[int] | None = None) -> bool:
        """Whether what the operators read, or some of them, is as it was."""
        if positions is None or len(positions) == len(self._snapshots):
            return self._snapshot.shows()
        return all(self._snapshots[position].shows() for position in positions)

    def recorded(self) -> tuple[bool, ...]:
        """Return of each tensor of the operators whether autograd follows it now."""
        return self._snapshot.recorded()

    def broadcast(self, positions: Sequence[int]) -> Broadcast:
        """Return how gradients of the copies reach what the sources read."""
        key = tuple(positions), self.recorded()
        found = self._broadcasts.get(key)
        if found is None:
            pairs = [(self._sources[position], self._tensors[position]) for position in positions]
            found = Broadcast(pairs)
            if found.can_be_kept:
                self._broadcasts[key] = found
        return found

    def use(self) -> None:
        """Have the copies be there for what is given to the current stream of the device."""
        stream = self._backend.current_stream(self._device)
        if stream in self._users:
            return
        stream.wait_event(self._arrived)
        for tensor in (tensor for tensors in self._tensors for tensor in tensors):
            self._backend.record_use(tensor, stream)
        self._users.append(stream)


def _sent(tensors: Sequence[Tensor], device: torch.device) -> dict[int, Tensor]:
    """Return what stands on a device for each tensor, by the id of the tensor."""
    away = nn.Module()
    for number, tensor in enumerate(tensors):
        if not is_there(tensor, device):
            away.register_buffer(str(number), tensor)
    found = {id(tensor): tensor for tensor in tensors}
    there = ModuleMemoryMap().copy_to(away, device)
    for name, copy in there.named_buffers(remove_duplicate=False):
        found[id(tensors[int(name)])] = copy
    return found


def is_there(tensor: Tensor, device: torch.device) -> bool:
    """Whether a tensor is on the device already."""
    return tensor.device == device


class ReplicaPart:
    """One copy of a replica, or what is derived from it: returned up to date when called."""

    def __init__(
        self,
        replica: Replica,
        position: int,
        steps: tuple[Callable[[NamedLinop], NamedLinop], ...] = (),
    ) -> None:
        self.replica, self._position, self._steps = replica, position, steps
        # By a weak key, not to keep an outdated copy in the memory of the device.
        self._derived = weakref.WeakKeyDictionary[NamedLinop, NamedLinop]()

    def derived(self, derive: Callable[[NamedLinop], NamedLinop]) -> ReplicaPart:
        """Return what is derived from this in one step more."""
        return ReplicaPart(self.replica, self._position, (*self._steps, derive))

    def __call__(self) -> NamedLinop:
        """Return what is derived from the copy as it is now."""
        origin = self.replica.copy_of(self._position)
        found = self._derived.get(origin)
        if found is None:
            found = reduce(lambda linop, derive: derive(linop), self._steps, origin)
            self._derived.clear()
            if found is not origin:
                self._derived[origin] = found
        return found

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without what was derived."""
        return type(self), (self.replica, self._position, self._steps)

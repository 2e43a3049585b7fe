"""Whether the tensors of operators are what they were."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from linops_core import TensorState
from linops_split.execution import modules_of

from ._contents import fingerprint, has_contents


class Snapshot:
    """The tensors of operators at one moment.

    A comparison takes about a microsecond for each dictionary of a module, of which tiles share
    most, and for each tensor. Writes are seen by torch's version counter, as autograd sees them.

    Fused optimizers write without raising that counter. So the contents of tensors that require
    gradients are compared too, once a call, which takes as long as it takes to read them.
    Optimizers write no other tensors.

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
            and all(seen.holds_same() for seen in self._tensors)
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
        self._state = TensorState(tensor)
        self._is_read_elsewhere = tensor.device != device
        self._contents = fingerprint(tensor) if self._must_be_compared(tensor) else None

    def looks_same(self) -> bool:
        tensor = self._tensor()
        # Of a tensor made in inference mode nobody counts the writes.
        return tensor is not None and self._state.counts_writes and self._state.is_current(tensor)

    def holds_same(self) -> bool:
        tensor = self._tensor()
        if tensor is None:
            return False
        must_be_compared = self._must_be_compared(tensor)
        if self._contents is None:
            # Gradients were switched on since: an optimizer may have written before this call.
            return not must_be_compared
        if has_contents(tensor) and fingerprint(tensor) != self._contents:
            return False
        if not must_be_compared and has_contents(tensor):
            self._contents = None  # gradients were switched off: this was the last comparison
        return True

    def _must_be_compared(self, tensor: Tensor) -> bool:
        """Whether an optimizer can write to the tensor, or could when its gradient was computed."""
        is_trained = tensor.requires_grad or tensor.grad is not None
        return is_trained and self._is_read_elsewhere and has_contents(tensor)

    def requires_grad(self) -> bool:
        tensor = self._tensor()
        return tensor is not None and tensor.requires_grad

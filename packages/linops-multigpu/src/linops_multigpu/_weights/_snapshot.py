"""Whether the tensors of operators are what they were."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from linops_core import TensorState

from ._contents import fingerprint, has_contents


class Snapshot:
    """The tensors of operators at one moment.

    A comparison takes about a microsecond for each dictionary of a module, of which tiles share
    most, and for each tensor. Writes are seen by torch's version counter, as autograd sees them.

    Fused optimizers write without raising that counter. So the contents of tensors that require
    gradients are compared too, once a call, which takes as long as it takes to read them; but not
    of those that are on ``device``, where they are used as they are. Optimizers write no others.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device | None = None) -> None:
        parts = {part: None for whole in modules for part in whole.modules()}
        held = [
            own for part in parts for own in (part._parameters, part._buffers, part._modules) if own
        ]
        self._held = [*{id(own): own for own in held}.values()]
        members = [value for own in self._held for value in own.values()]
        self._members = [None if value is None else weakref.ref(value) for value in members]
        tensors = {id(value): value for value in members if isinstance(value, Tensor)}
        self._tensors = [_Seen(tensor, device) for tensor in tensors.values()]

    def shows(self) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        return (
            self._holds_same()
            and all(seen.looks_same() for seen in self._tensors)
            and all(seen.holds_same() for seen in self._tensors)
        )

    def _holds_same(self) -> bool:
        """Whether the modules hold the objects that they held."""
        now = [value for own in self._held for value in own.values()]
        return len(now) == len(self._members) and all(
            value is (None if member is None else member())
            for value, member in zip(now, self._members, strict=True)
        )

    def recorded(self) -> tuple[bool, ...]:
        """Return of each tensor whether autograd follows it now."""
        return tuple([seen.requires_grad() for seen in self._tensors])


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

"""Detecting changes of the tensors of operators."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from linops_core.siblings import TensorState

from ._contents import fingerprint, has_contents


class Snapshot:
    """The state of the tensors of operators at one moment.

    A comparison takes about a microsecond for each dictionary of a module (tiles share most of
    them) and for each tensor. Writes are detected by torch's version counter, as in autograd.

    Fused optimizers do not increase that counter. So the contents of tensors that require gradients
    are compared too, once per call; this takes the time to read them. Tensors on ``device`` are
    used in place and need no comparison, and optimizers write to no other tensors.
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
        self._tensors = [_TensorSnapshot(tensor, device) for tensor in tensors.values()]

    def is_current(self) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        return self._members_are_current() and self.tensors_are_current()

    def tensors_are_current(self) -> bool:
        """Whether no tensor was written to, moved or cast since."""
        return all(seen.state_is_current() for seen in self._tensors) and all(
            seen.contents_are_current() for seen in self._tensors
        )

    def _members_are_current(self) -> bool:
        """Whether the modules still hold the same objects."""
        now = [value for own in self._held for value in own.values()]
        return len(now) == len(self._members) and all(
            value is (None if member is None else member())
            for value, member in zip(now, self._members, strict=True)
        )

    def requires_grad(self) -> tuple[bool, ...]:
        """Return for each tensor whether it requires gradients now."""
        return tuple([seen.requires_grad() for seen in self._tensors])


class _TensorSnapshot:
    """A tensor and its state at one moment."""

    def __init__(self, tensor: Tensor, device: torch.device | None) -> None:
        self._tensor = weakref.ref(tensor)
        self._state = TensorState(tensor)
        self._is_read_elsewhere = tensor.device != device
        self._contents = fingerprint(tensor) if self._must_be_compared(tensor) else None

    def state_is_current(self) -> bool:
        tensor = self._tensor()
        # torch does not count writes to tensors made in inference mode.
        return tensor is not None and self._state.counts_writes and self._state.is_current(tensor)

    def contents_are_current(self) -> bool:
        tensor = self._tensor()
        if tensor is None:
            return False
        must_be_compared = self._must_be_compared(tensor)
        if self._contents is None:
            # Gradients were switched on since, so an optimizer may have written before this call.
            return not must_be_compared
        if has_contents(tensor) and fingerprint(tensor) != self._contents:
            return False
        if not must_be_compared and has_contents(tensor):
            self._contents = None  # gradients were switched off, so this was the last comparison
        return True

    def _must_be_compared(self, tensor: Tensor) -> bool:
        """Whether an optimizer may write to the tensor now, or its gradient is still there."""
        is_trained = tensor.requires_grad or tensor.grad is not None
        return is_trained and self._is_read_elsewhere and has_contents(tensor)

    def requires_grad(self) -> bool:
        tensor = self._tensor()
        return tensor is not None and tensor.requires_grad

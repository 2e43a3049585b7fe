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
        held = [d for part in parts for d in (part._parameters, part._buffers, part._modules) if d]
        self._held = [*{id(d): d for d in held}.values()]
        members = [value for d in self._held for value in d.values()]
        self._members = [None if value is None else weakref.ref(value) for value in members]
        tensors = [*{id(value): value for value in members if isinstance(value, Tensor)}.values()]
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._state, self._device = TensorState(*tensors), device
        compared = [n for n, tensor in enumerate(tensors) if self._must_be_compared(tensor)]
        self._contents = {n: fingerprint(tensors[n]) for n in compared}

    def is_current(self) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        return self._members_are_current() and self.tensors_are_current()

    def tensors_are_current(self) -> bool:
        """Whether no tensor was written to, moved or cast since."""
        now = self._alive()
        # torch does not count writes to tensors made in inference mode.
        is_current = self._state.counts_writes and self._state.is_current(*now)
        return is_current and all([self._has_same_contents(n, each) for n, each in enumerate(now)])

    def _members_are_current(self) -> bool:
        """Whether the modules still hold the same objects."""
        now = [value for d in self._held for value in d.values()]
        return len(now) == len(self._members) and all(
            value is (None if member is None else member())
            for value, member in zip(now, self._members, strict=True)
        )

    def requires_grad(self) -> tuple[bool, ...]:
        """Return for each tensor whether it requires gradients now."""
        return tuple([tensor.requires_grad for tensor in self._alive()])

    def _alive(self) -> list[Tensor]:
        tensors = [tensor() for tensor in self._tensors]
        return [tensor for tensor in tensors if tensor is not None]

    def _has_same_contents(self, number: int, tensor: Tensor) -> bool:
        must_be_compared = self._must_be_compared(tensor)
        if number not in self._contents:
            # Gradients were switched on since, so an optimizer may have written before this call.
            return not must_be_compared
        if has_contents(tensor) and fingerprint(tensor) != self._contents[number]:
            return False
        if not must_be_compared and has_contents(tensor):
            # Gradients were switched off, so this was the last comparison.
            del self._contents[number]
        return True

    def _must_be_compared(self, tensor: Tensor) -> bool:
        """Whether an optimizer may write to the tensor now, or its gradient is still there."""
        is_trained = tensor.requires_grad or tensor.grad is not None
        return is_trained and tensor.device != self._device and has_contents(tensor)

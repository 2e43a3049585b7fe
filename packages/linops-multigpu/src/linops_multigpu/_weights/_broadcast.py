"""Copies of weights that autograd follows from the weights to them, and back again.

Of weights that several operators read, or read parts of, each byte is on the device once. So are
the gradients: what several return for the same element is summed there, and sent back once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from linops_core import NamedLinop
from linops_split.execution import WeightParts, read_by, reading, weight_of

from .._devices._device_spec import DeviceSpec
from .._devices._to_device import sent
from ._gradient_sums import DeviceGradientSums, returned


class Broadcast:
    """Operators on copies of what they read, with gradients that reach what they read.

    Parameters
    ----------
    sources : sequence of NamedLinop
    copies : sequence of sequence of Tensor
        What each of them reads, with its values of now, on another device.

    Attributes
    ----------
    parts : WeightParts
    weights : list of Tensor
        The weights whose parts they are, in that order.
    """

    def __init__(self, sources: Sequence[NamedLinop], copies: Sequence[Sequence[Tensor]]) -> None:
        self._sources = sources
        self.parts = WeightParts()
        self.weights: list[Tensor] = []
        self.can_be_kept = True
        self._read = [
            [self._copy_or_number(*pair) for pair in zip(read_by(source), own, strict=True)]
            for source, own in zip(sources, copies, strict=True)
        ]

    def linops(self) -> list[NamedLinop]:
        """Return operators whose gradients reach the weights, which belong to one call."""
        own = self.weights
        parts = _BroadcastWeights.apply(self.parts, *own) if own else ()  # type: ignore[no-untyped-call]
        return [
            reading(source, [parts[of] if isinstance(of, int) else of for of in read])
            for source, read in zip(self._sources, self._read, strict=True)
        ]

    def _copy_or_number(self, tensor: Tensor, copy: Tensor) -> Tensor | int:
        """Return what stands for a tensor: the copy, or the number of a part of a weight."""
        if not tensor.requires_grad:
            return copy
        weight = weight_of(tensor)
        # What was computed from leaves is computed for this call.
        self.can_be_kept &= weight is not None and weight.is_leaf
        n_before = len(self.parts.roots)
        if weight is None:
            number = self.parts.add_alone(tensor, copy)
        else:
            number = self.parts.add(weight, tensor, copy)
        if len(self.parts.roots) > n_before:
            self.weights.append(tensor if weight is None else weight)
        return number


def sent_by_itself(source: NamedLinop, device: torch.device) -> NamedLinop:
    """Return an operator on what it reads, sent to a device by what any transform follows."""
    return source.with_weights(
        lambda tensor: tensor if tensor.device == device else _sent(tensor, tensor.device, device)
    )


def is_transformed() -> bool:
    """Whether a transform of torch.func is at work, which only follows what is sent by itself."""
    return torch._C._are_functorch_transforms_active()


def _sent(tensor: Tensor, here: torch.device, there: torch.device) -> Tensor:
    return sent(tensor, DeviceSpec(here), DeviceSpec(there))


class _BroadcastWeights(Function):
    """From weights to the copies of their parts, which have been sent."""

    @staticmethod
    def forward(parts: WeightParts, *weights: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.copy.detach() for part in parts.parts)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.parts = inputs[0]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_ReduceAdd.apply(ctx.parts, *gradients)  # type: ignore[no-untyped-call]


class _ReduceAdd(Function):
    """From gradients of the copies to gradients of the weights."""

    @staticmethod
    def forward(parts: WeightParts, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        sums = DeviceGradientSums(parts)
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                sums.add(number, gradient)
        found = returned([sums])
        return tuple(found.get(number) for number in range(len(parts.roots)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.parts = inputs[0]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        found: list[Tensor | None] = [None]
        for part in ctx.parts.parts:
            root, gradient = ctx.parts.roots[part.root], gradients[part.root]
            if gradient is None:
                found.append(None)
            else:
                own = part.of(root.flat(gradient))
                found.append(_sent(own, root.device, part.copy.device))
        return tuple(found)

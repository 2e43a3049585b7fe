"""Copies of weights that autograd follows from the weights to them, and back again.

Of weights that several operators read, or read parts of, each byte is on the device once. So are
the gradients: what several return for the same element is summed there, and sent back once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, FunctionCtx

from linops_core import NamedLinop

from ._device_spec import DeviceSpec
from ._stream_pool import streams_on
from ._to_device import sent
from ._transfer import issue
from ._weight_parts import Part, WeightParts, weight_of
from ._weights import read_by, reading


class Followed:
    """Operators on copies of what they read, with gradients that reach what they read.

    Parameters
    ----------
    sources : sequence of NamedLinop
    copies : sequence of sequence of Tensor
        What each of them reads, with its values of now, on another device.
    """

    def __init__(self, sources: Sequence[NamedLinop], copies: Sequence[Sequence[Tensor]]) -> None:
        self._sources = sources
        self._parts = WeightParts()
        self._weights: list[Tensor] = []
        self.can_be_kept = True
        self._read = [
            [self._copy_or_number(*pair) for pair in zip(read_by(source), own, strict=True)]
            for source, own in zip(sources, copies, strict=True)
        ]

    def linops(self) -> list[NamedLinop]:
        """Return the operators; new ones, which belong to one call."""
        followed = _Follow.apply(self._parts, *self._weights) if self._weights else ()  # type: ignore[no-untyped-call]
        return [
            reading(source, [followed[of] if isinstance(of, int) else of for of in own])
            for source, own in zip(self._sources, self._read, strict=True)
        ]

    def _copy_or_number(self, tensor: Tensor, copy: Tensor) -> Tensor | int:
        """Return what stands for a tensor: the copy, one of its own, or a part of a weight."""
        if not tensor.requires_grad:
            return copy
        weight = weight_of(tensor)
        # What was computed from leaves is computed for this call.
        self.can_be_kept &= weight is not None and weight.is_leaf
        if weight is None:
            return _sent(tensor, tensor.device, copy.device)
        n_before = len(self._parts.roots)
        number = self._parts.add(weight, tensor, copy)
        if len(self._parts.roots) > n_before:
            self._weights.append(weight)
        return number


def sent_by_itself(source: NamedLinop, device: torch.device) -> NamedLinop:
    """Return an operator on what it reads, sent to a device by what any transform follows."""
    return source.with_weights(lambda tensor: _sent(tensor, tensor.device, device))


def is_transformed() -> bool:
    """Whether a transform of torch.func is at work, which only follows what is sent by itself."""
    return torch._C._are_functorch_transforms_active()


def _sent(tensor: Tensor, here: torch.device, there: torch.device) -> Tensor:
    return sent(tensor, DeviceSpec(here), DeviceSpec(there))


class _Follow(Function):
    """From weights to the copies of their parts, which have been sent."""

    @staticmethod
    def forward(parts: WeightParts, *weights: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.copy.detach() for part in parts.parts)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: object) -> None:
        ctx.parts = inputs[0]  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_Return.apply(ctx.parts, *gradients)  # type: ignore[no-untyped-call]


class _Return(Function):
    """From gradients of the copies to gradients of the weights; the adjoint of `_Follow`."""

    @staticmethod
    def forward(parts: WeightParts, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        under_way = []
        for group in parts.groups():
            of_part = {parts.parts[n]: g for n in group if (g := gradients[n]) is not None}
            if of_part:
                there = next(iter(of_part)).copy.device
                here = parts.roots[next(iter(of_part)).root].device
                total = _Total(of_part)
                streams = streams_on(there, peer=here), streams_on(here, peer=there)
                under_way.append((total, issue(total.values, *streams)))
        flat: dict[int, Tensor] = {}
        for total, transfer in under_way:
            arrived = transfer.receive()
            transfer.release()
            for part in total.parts:
                root = parts.roots[part.root]
                if part.root not in flat:
                    flat[part.root] = arrived.new_zeros(root.shape.numel())
                part.of(flat[part.root]).copy_(total.of(part, arrived))
        return tuple(
            root.shaped(flat[number]) if number in flat else None
            for number, root in enumerate(parts.roots)
        )

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: object) -> None:
        ctx.parts = inputs[0]  # type: ignore[attr-defined]
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


class _Total:
    """The sum of gradients of parts that overlap, over the memory that they have together."""

    def __init__(self, gradients: dict[Part, Tensor]) -> None:
        self.parts = list(gradients)
        if len(gradients) == 1:
            (self.values,) = gradients.values()
            return
        starts = [part.copy.storage_offset() for part in gradients]
        stops = [
            1
            + part.copy.storage_offset()
            + sum((n - 1) * step for n, step in zip(part.size, part.copy.stride(), strict=True))
            for part in gradients
        ]
        self._start = min(starts)
        first = next(iter(gradients.values()))
        self.values = first.new_zeros(max(stops) - self._start)
        for part, gradient in gradients.items():
            self.of(part, self.values).add_(gradient)

    def of(self, part: Part, values: Tensor) -> Tensor:
        """Return what ``values``, which are like those of the sum, are for a part."""
        if len(self.parts) == 1:
            return values
        offset = part.copy.storage_offset() - self._start
        return values.as_strided(part.size, part.copy.stride(), offset)

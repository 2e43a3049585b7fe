"""Copies of weights on a device that autograd connects to the weights.

If several operators read a weight, or parts of it, each byte is on the device once. Gradients are
treated in the same way: the gradients of an element are summed on the device and sent back once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from linops_core import NamedLinop
from linops_split.siblings import WeightViews, with_tensors_read

from .._devices._device_spec import DeviceSpec
from .._devices._to_device import copy_on_device
from ._device_gradient_sums import DeviceGradientSums, gradients_at_weights


class Broadcast:
    """Operators on copies of the tensors that they read, with gradients that reach these tensors.

    Each of ``sources`` is an operator with up-to-date copies, on another device, of what it reads.
    """

    def __init__(self, sources: Iterable[tuple[NamedLinop, Sequence[Tensor]]]) -> None:
        self._weight_views = WeightViews()
        self._sources = [
            (source, self._weight_views.add_read_by(source, copies)) for source, copies in sources
        ]

    @property
    def can_be_kept(self) -> bool:
        """Whether it can be used for other calls; if a weight is not a leaf, it cannot."""
        return all(weight.is_leaf for weight in self._weight_views.weights)

    def linops(self) -> list[NamedLinop]:
        """Return operators whose gradients reach the weights; they belong to one call."""
        weights = self._weight_views.weights
        followed = _BroadcastWeights.apply(self._weight_views, *weights) if weights else ()  # type: ignore[no-untyped-call]
        return [
            with_tensors_read(source, [copy if n is None else followed[n] for n, _, copy in read])
            for source, read in self._sources
        ]


def with_weights_sent(source: NamedLinop, device: torch.device) -> NamedLinop:
    """Return an operator whose weights are sent to a device in a way that transforms can follow."""
    return source.with_weights(lambda tensor: _followed_copy(tensor, device))


def _followed_copy(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device so that autograd follows it."""
    if tensor.device == device:
        return tensor
    return copy_on_device(tensor, DeviceSpec(tensor.device), DeviceSpec(device))


class _BroadcastWeights(Function):
    """Connects weights to the copies of their parts, which have been sent before."""

    @staticmethod
    def forward(weight_views: WeightViews, *weights: Tensor) -> tuple[Tensor, ...]:
        return tuple(view.copy.detach() for view in weight_views.views)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.weight_views = inputs[0]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_ReduceAdd.apply(ctx.weight_views, *gradients)  # type: ignore[no-untyped-call]


class _ReduceAdd(Function):
    """Reduces the gradients of the copies to gradients of the weights."""

    @staticmethod
    def forward(weight_views: WeightViews, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        sums = DeviceGradientSums(weight_views)
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                sums.add(number, gradient)
        sums_of_weights = gradients_at_weights(weight_views, [sums])
        return tuple(sums_of_weights.get(number) for number in range(len(weight_views.layouts)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.weight_views, *gradients = inputs
        ctx.are_given = [gradient is not None for gradient in gradients]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        result: list[Tensor | None] = [None]
        for view, is_given in zip(ctx.weight_views.views, ctx.are_given, strict=True):
            layout = ctx.weight_views.layouts[view.weight_number]
            gradient = gradients[view.weight_number]
            if gradient is None or not is_given:
                result.append(None)
            else:
                of_view = view.of(layout.laid_out(gradient))
                result.append(_followed_copy(of_view, view.copy.device))
        return tuple(result)

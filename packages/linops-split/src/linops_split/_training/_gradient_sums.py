"""Sums of the gradients to parts of weights."""

from __future__ import annotations

from torch import Tensor

from ._weight_parts import WeightParts


class GradientSums:
    """Sums of gradients to weights, of which each part that is read has its own.

    Parameters
    ----------
    parts : WeightParts
        On the devices of their weights.
    """

    def __init__(self, parts: WeightParts) -> None:
        self.parts = parts
        self.whole: dict[int, Tensor] = {}
        """By number of the weight, its gradient as flat memory."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient to a part of a weight."""
        part = self.parts.parts[number]
        if part.root not in self.whole:
            shape = self.parts.roots[part.root].shape
            self.whole[part.root] = gradient.new_zeros(shape.numel())
        part.of(self.whole[part.root]).add_(gradient)

    def shaped(self) -> dict[int, Tensor]:
        """Return the gradients, like their weights."""
        roots = self.parts.roots
        return {number: roots[number].shaped(flat) for number, flat in self.whole.items()}

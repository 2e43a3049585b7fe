"""Sums of the gradients to parts of weights."""

from __future__ import annotations

from torch import Tensor

from ._weight_parts import WeightParts


class GradientSums:
    """Sums of gradients to weights, of which each part that is read has its own."""

    def __init__(self, parts: WeightParts) -> None:
        self.parts = parts
        self.whole: dict[int, Tensor] = {}
        """The gradient of each weight, like the weight, by its number."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient to a part of a weight that is on the device of the gradient."""
        part = self.parts.parts[number]
        if part.root not in self.whole:
            self.whole[part.root] = self.parts.roots[part.root].empty_like(gradient).zero_()
        part.of(self.whole[part.root]).add_(gradient)

    def add_whole(self, root: int, gradient: Tensor) -> None:
        """Add the gradient of a weight, which nobody else has."""
        if root in self.whole:
            self.whole[root].add_(gradient)
        else:
            self.whole[root] = self.parts.roots[root].laid_out(gradient)

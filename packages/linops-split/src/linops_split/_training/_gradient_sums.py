"""Sums of the gradients to parts of weights."""

from __future__ import annotations

from torch import Tensor

from ._weight_parts import WeightParts


class GradientSums:
    """Sums of gradients to weights; each part that reads a slice of a weight adds its own."""

    def __init__(self, parts: WeightParts) -> None:
        self.parts = parts
        self.whole: dict[int, Tensor] = {}
        """The gradient of each weight, laid out like the weight, by the number of the weight."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient of one part of a weight, on the device of the gradient."""
        part = self.parts.parts[number]
        if part.weight_number not in self.whole:
            self.whole[part.weight_number] = (
                self.parts.layouts[part.weight_number].empty_like(gradient).zero_()
            )
        part.of(self.whole[part.weight_number]).add_(gradient)

    def add_whole(self, weight_number: int, gradient: Tensor) -> None:
        """Add the gradient of a whole weight; the tensor must have no other user."""
        if weight_number in self.whole:
            self.whole[weight_number].add_(gradient)
        else:
            self.whole[weight_number] = self.parts.layouts[weight_number].laid_out(gradient)

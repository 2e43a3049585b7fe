"""Sums of the gradients to parts of weights."""

from __future__ import annotations

from torch import Tensor

from linops_core.siblings import at_least_single

from ._weight_views import WeightViews


class GradientSums:
    """Sums of gradients to weights; each part that reads a slice of a weight adds its own.

    Half precision is added in single precision.
    """

    def __init__(self, weight_views: WeightViews) -> None:
        self.weight_views = weight_views
        self.whole: dict[int, Tensor] = {}
        """The gradient of each weight, laid out like the weight, by the number of the weight."""

    def add(self, number: int, gradient: Tensor) -> None:
        """Add the gradient of one part of a weight, on the device of the gradient."""
        view = self.weight_views.views[number]
        if view.weight_number not in self.whole:
            layout = self.weight_views.layouts[view.weight_number]
            zeros = layout.empty_like(gradient, at_least_single(gradient.dtype)).zero_()
            self.whole[view.weight_number] = zeros
        view.of(self.whole[view.weight_number]).add_(gradient)

    def add_whole(self, weight_number: int, gradient: Tensor) -> None:
        """Add the gradient of a whole weight; the tensor must have no other user."""
        if weight_number in self.whole:
            total = self.whole[weight_number]
            self.whole[weight_number] = total.to(at_least_single(total.dtype)).add_(gradient)
        else:
            self.whole[weight_number] = self.weight_views.layouts[weight_number].laid_out(gradient)

    def in_dtypes(self) -> dict[int, Tensor]:
        """Return the gradient of each weight in the dtype of the weight."""
        weights = self.weight_views.weights
        return {number: total.to(weights[number].dtype) for number, total in self.whole.items()}

"""Gradients to weights that several ranks have: they are summed over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torch import Tensor

from linops_core import NamedLinop, SliceableLinop
from linops_core.siblings import TensorState, submodules_of
from linops_split import Tiles
from linops_split.siblings import GradientSums, PartCopies, WeightViews, is_dense

from .._ranks._transport import Transport
from .._shares._sharding import Sharding

Summed = Callable[[Tensor, Sequence[str], str], Tensor]
"""Returns the sum of a tensor over dimensions of the mesh; takes the name of the step."""


def trained_weights(linop: NamedLinop) -> list[Tensor]:
    """Return the weights of an operator that require gradients, each once."""
    weight_views = WeightViews()
    weight_views.add_read_by(linop)
    return weight_views.weights


def mesh_dims_of_weights(
    linop: NamedLinop, sharding: Sharding, ranks: Transport, owner: str
) -> list[tuple[str, ...]]:
    """Return the dimensions of the mesh over which the gradient of each weight is summed.

    Ranks have copies of a weight along a dimension of the mesh if no dimension of it is cut there.

    Raises
    ------
    NotImplementedError
        On all ranks, if it is not known which weights are copies of each other.
    """
    weights = trained_weights(linop)
    cut: dict[int, set[str]] = {}
    for module in submodules_of(linop):
        if not isinstance(module, SliceableLinop):
            continue
        for name, part in module._weights.items():
            weight = module._weight(name)
            dims = [d for at, d in enumerate(part.dims(module.shape)) if at not in part.broadcast]
            halos = [dim for dim in dims if dim in sharding.cuts and sharding.cuts[dim].reads]
            if weight.requires_grad and not halos:
                cut.setdefault(id(weight), set()).update(sharding.present_in(dims))
    dims_of_weights = [
        tuple(name for name in sharding.used if name not in cut[id(weight)])
        if id(weight) in cut
        else None
        for weight in weights
    ]
    summed = [
        (tuple(weight.shape), dims)
        for weight, dims in zip(weights, dims_of_weights, strict=True)
        if dims is None or dims
    ]
    gathered = ranks.all_gather(summed, owner, "the weights that are trained")
    if any(one != gathered[0] for one in gathered) or any(dims is None for _, dims in summed):
        raise NotImplementedError(
            f"{owner}: weights of shares that are sent or loaded, and that require gradients, must "
            "be copies of each other or be cut, and all ranks must have work, got (shape, summed "
            f"over) {gathered}; give all ranks the operator, or detach its weights"
        )
    return [dims or () for dims in dims_of_weights]


class RankCopies(PartCopies):
    """Copies of the part of this rank, with all weights for which any rank computes gradients.

    Parameters
    ----------
    tiles : Tiles
    weights : sequence of Tensor
        Weights of the whole operator, in the same order on all ranks.
    mesh_dims : sequence of sequence of str
        Dimensions of the mesh over which the gradient of each weight is summed.
    """

    def __init__(
        self,
        tiles: Tiles,
        weights: Sequence[Tensor],
        mesh_dims: Sequence[Sequence[str]],
        summed: Summed,
        owner: str,
    ) -> None:
        super().__init__(tiles)
        self._summed = summed
        for weight in weights:
            self.weight_views.add(weight, weight, weight)
        self._state = TensorState(*self._tensors())  # also of these
        numbers = {id(weight): number for number, weight in enumerate(self.weight_views.weights)}
        # If one is not dense, each part that reads it has a weight of its own.
        if len(self.weight_views.weights) != len(weights) or not all(map(is_dense, weights)):
            raise NotImplementedError(
                f"{owner}: weights that are trained over ranks must be dense tensors, got one "
                "with gaps or repeated elements; train the tensor that it is made of"
            )
        self._mesh_dims = {
            numbers[id(weight)]: dims for weight, dims in zip(weights, mesh_dims, strict=True)
        }

    def gradients_at_weights(
        self, sums: Collection[GradientSums], failure: str = ""
    ) -> dict[int, Tensor]:
        """Return the gradients of the weights by number, summed over all ranks.

        If this rank has failed, ``failure`` is what the others are told of it.
        """
        gradients = super().gradients_at_weights(sums)
        for number, dims in self._mesh_dims.items():
            weight = self.weight_views.weights[number]
            gradient = gradients.get(number)
            if gradient is None:
                gradient = self.weight_views.layouts[number].empty_like(weight.detach()).zero_()
            total = self._summed(
                gradient, dims, f"the gradient of weight {tuple(weight.shape)}{failure}"
            )
            gradients[number] = self.weight_views.layouts[number].laid_out(total)
        return gradients

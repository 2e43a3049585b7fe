"""Gradients to weights that several ranks have: what each rank finds is summed over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torch import Tensor

from linops_core import NamedLinop
from linops_split import Tiles
from linops_split.execution import GradientSums, PartCopies, WeightParts, read_by

Summed = Callable[[Tensor, Sequence[str], str], Tensor]
"""Returns the sum of a tensor over dimensions of the mesh, in a step of that name."""


def trained_weights(linop: NamedLinop) -> list[Tensor]:
    """Return the weights of an operator that autograd follows, each once."""
    parts = WeightParts()
    for tensor in read_by(linop):
        parts.add(tensor, tensor)
    return parts.weights


class RankCopies(PartCopies):
    """Copies of the part of this rank, with all weights that any rank computes gradients of.

    Parameters
    ----------
    tiles : Tiles
    weights : sequence of Tensor
        Those of the whole operator, in the same order on all ranks.
    mesh_dims : sequence of sequence of str
        Over which dimensions of the mesh the gradient of each is summed.
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
            self.parts.add(weight, weight)
        self._versions = self._versions_now()  # of these, too
        numbers = {id(weight): number for number, weight in enumerate(self.parts.weights)}
        if len(numbers) != len(weights) or not all(id(weight) in numbers for weight in weights):
            raise NotImplementedError(
                f"{owner}: weights that are trained over ranks must be dense tensors, got one "
                "with gaps or repeated elements; train the tensor that it is made of"
            )
        self._mesh_dims = {
            numbers[id(weight)]: dims for weight, dims in zip(weights, mesh_dims, strict=True)
        }

    def returned(self, sums: Collection[GradientSums]) -> dict[int, Tensor]:
        """Return the gradients of the weights, by their numbers, of all ranks together."""
        found = super().returned(sums)
        for number, dims in self._mesh_dims.items():
            weight = self.parts.weights[number]
            own = found.get(number)
            if own is None:
                own = self.parts.roots[number].empty_like(weight.detach()).zero_()
            total = self._summed(own, dims, f"the gradient of weight {tuple(weight.shape)}")
            found[number] = self.parts.roots[number].laid_out(total)
        return found

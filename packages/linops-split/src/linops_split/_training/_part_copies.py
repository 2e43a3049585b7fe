"""Copies of the parts of a table for training: on weights without history, and on leaves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import TensorState

from .._tiles import Tiles
from ._gradient_sums import GradientSums
from ._hooks import add_hooks_of, with_hooks_of
from ._weight_views import WeightViews
from ._weights import with_tensors_read


class PartCopies:
    """The operators that are called instead of the parts of a table if autograd follows weights.

    All copies have views of the weights; each part holds the views that it reads.

    Parameters
    ----------
    tiles : Tiles
    sources : sequence of NamedLinop, optional
        For each part, the operator with its weights. Default: the operator of the part.
    copies : sequence of sequence of Tensor, optional
        For each part, the tensors that it reads, on its device. Default: the weights themselves.
    """

    def __init__(
        self,
        tiles: Tiles,
        sources: Sequence[NamedLinop] | None = None,
        copies: Sequence[Sequence[Tensor]] | None = None,
    ) -> None:
        self.tiles, self.weight_views = tiles, WeightViews()
        self._sources = tiles.linops if sources is None else sources
        # For each part: the number of each weight part that it reads, the tensor, and the copy.
        self._read = [
            self.weight_views.add_read_by(source, None if copies is None else copies[number])
            for number, source in enumerate(self._sources)
        ]
        self._frozen = [self._made_frozen(number) for number in range(len(self._sources))]
        self._held = TensorState(*tiles.all_tensors())
        self._state = TensorState(*self._tensors())

    def _made_frozen(self, number: int) -> NamedLinop:
        read = self._read[number]
        frozen = [copy if of is None else copy.detach() for of, _, copy in read]
        return self._with_hooks(with_tensors_read(self._sources[number], frozen), number)

    def _with_hooks(self, copy: NamedLinop, number: int) -> NamedLinop:
        """Let a copy of the operator of a part call the operator's hooks."""
        source, called = self._sources[number], self.tiles.linops[number]
        with_hooks_of(copy, source)
        if called is not source:
            add_hooks_of(copy, called)
        return copy

    def frozen(self, number: int) -> NamedLinop:
        """Return the operator of a part on weights without history."""
        return self._frozen[number]

    def trained(self, number: int) -> tuple[NamedLinop, dict[int, Tensor]]:
        """Return the operator of a part on leaf tensors, and the leaves by their part numbers."""
        read = self._read[number]
        leaves = {of: copy.detach().requires_grad_() for of, _, copy in read if of is not None}
        linop = with_tensors_read(
            self._sources[number], [copy if of is None else leaves[of] for of, _, copy in read]
        )
        return self._with_hooks(linop, number), leaves

    def is_followed(self, number: int) -> bool:
        """Whether a weight that a part reads requires a gradient."""
        return any(n is not None for n, *_ in self._read[number])

    def have_changed(self) -> bool:
        """Whether a tensor that is read was written to or moved since the copies were made."""
        return not self._state.is_current(*self._tensors())

    def were_replaced(self) -> bool:
        """Whether the operators now hold other weights, or the same ones with other memory."""
        return not self._held.is_current(*self.tiles.all_tensors())

    def recorded(self, weights: Sequence[Tensor]) -> Tiles:
        """Return the table for other weights, which autograd follows."""
        linops = iter(
            [
                with_tensors_read(
                    source,
                    [
                        tensor if n is None else self.weight_views.read(n, weights)
                        for n, tensor, _ in read
                    ],
                )
                for source, read in zip(self._sources, self._read, strict=True)
            ]
        )
        return self.tiles.mapped(lambda _: next(linops))

    def new_sums(self) -> GradientSums:
        """Return empty sums of gradients, for the parts of one device."""
        return GradientSums(self.weight_views)

    def gradients_at_weights(self, sums: Collection[GradientSums]) -> dict[int, Tensor]:
        """Return the gradient of each weight, by the number of the weight."""
        total = GradientSums(self.weight_views)
        for sums_of_part in sums:
            for root, gradient in sums_of_part.whole.items():
                total.add_whole(root, gradient)
        return total.in_dtypes()

    def _tensors(self) -> list[Tensor]:
        return [copy for read in self._read for *_, copy in read] + self.weight_views.weights

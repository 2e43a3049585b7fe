"""Copies of the parts of a table for training: on weights without history, and on leaves."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from linops_core import NamedLinop, TensorState

from .._tiles import Tiles
from ._hooks import add_hooks_of, with_hooks_of
from ._weight_parts import WeightParts, weight_of
from ._weights import reading


class PartCopies:
    """What is called in the place of the parts of a table when autograd follows weights.

    All copies have views of the weights, of which each part holds what it reads.

    Parameters
    ----------
    tiles : Tiles
    sources : sequence of NamedLinop, optional
        Of each part the operator with its weights; that of the part by default.
    copies : sequence of sequence of Tensor, optional
        Of each part what it reads, where it reads it; the weights themselves by default.

    Attributes
    ----------
    weights : list of Tensor
        Those that autograd follows.
    parts : WeightParts
        The parts of weights that are read.
    frozen : list of NamedLinop
        The operator of each part, on weights without history.
    """

    def __init__(
        self,
        tiles: Tiles,
        sources: Sequence[NamedLinop] | None = None,
        copies: Sequence[Sequence[Tensor]] | None = None,
    ) -> None:
        self._called = [part.linop for part in tiles.parts]
        self._sources = self._called if sources is None else sources
        self.weights: list[Tensor] = []
        self.parts = WeightParts()
        self._copies: list[list[Tensor]] = []  # what each part reads, where it reads it
        self._numbers: list[list[int | None]] = []  # which part of a weight that is
        self.frozen = [
            self._frozen(source, None if copies is None else copies[number])
            for number, source in enumerate(self._sources)
        ]
        for copy, source, called in zip(self.frozen, self._sources, self._called, strict=True):
            follow_hooks(copy, source, called)
        self._tiles = tiles
        self._states = [TensorState(tensor) for tensor in tiles.all_tensors()]
        self._versions = self._versions_now()

    def _frozen(self, source: NamedLinop, copies: Sequence[Tensor] | None) -> NamedLinop:
        own, numbers = list[Tensor](), list[int | None]()

        def note(tensor: Tensor) -> Tensor:
            copy = tensor if copies is None else copies[len(own)]
            own.append(copy)
            numbers.append(self._number_of(tensor, copy))
            return copy if numbers[-1] is None else copy.detach()

        linop = source.with_weights(note)
        self._copies.append(own)
        self._numbers.append(numbers)
        return linop

    def trained(self, number: int) -> tuple[NamedLinop, dict[int, Tensor]]:
        """Return the operator of a part on leaves, and those by the numbers of their parts."""
        pairs = [*zip(self._numbers[number], self._copies[number], strict=True)]
        leaves = {n: copy.detach().requires_grad_() for n, copy in pairs if n is not None}
        source = self._sources[number]
        linop = reading(source, [copy if n is None else leaves[n] for n, copy in pairs])
        follow_hooks(linop, source, self._called[number])
        return linop, leaves

    def is_followed(self, number: int) -> bool:
        """Whether autograd follows a weight that a part reads."""
        return any(n is not None for n in self._numbers[number])

    def _number_of(self, tensor: Tensor, copy: Tensor) -> int | None:
        """Return the number of the part of a weight that is read, None where it is not followed."""
        if not tensor.requires_grad:
            return None
        weight, n_weights = weight_of(tensor), len(self.parts.roots)
        if weight is None:
            number = self.parts.add_alone(tensor, copy)
        else:
            number = self.parts.add(weight, tensor, copy)
        if len(self.parts.roots) > n_weights:
            self.weights.append(tensor if weight is None else weight)
        return number

    def were_written(self) -> bool:
        """Whether a tensor that is read was written to since these were made."""
        return self._versions_now() != self._versions

    def are_current(self) -> bool:
        """Whether no weight was written to, replaced or moved since these were made."""
        tensors = self._tiles.all_tensors()
        return (
            len(tensors) == len(self._states)
            and all(map(TensorState.is_current, self._states, tensors))
            and not self.were_written()
        )

    def recorded(self) -> Tiles:
        """Return the table of operators from whose weights autograd reaches those of the call."""
        pairs = zip(self._sources, self._copies, strict=True)
        linops = iter([reading(source, own) for source, own in pairs])
        return self._tiles.mapped(lambda _: next(linops))

    def _versions_now(self) -> list[int]:
        read = [tensor for tensors in (*self._copies, self.weights) for tensor in tensors]
        return [-1 if tensor.is_inference() else tensor._version for tensor in read]


def follow_hooks(copy: NamedLinop, source: NamedLinop, called: NamedLinop) -> None:
    """Have the hooks of the operator that would be called be called for a copy of it."""
    with_hooks_of(copy, source)
    if called is not source:
        add_hooks_of(copy, called)

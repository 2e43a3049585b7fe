"""Copies of the parts of a table for training: on weights without history, and on leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from linops_core import NamedLinop

from .._tiles import Tiles
from ._hooks import add_hooks_of, with_hooks_of
from ._weight_parts import WeightParts, weight_of
from ._weights import read_by, reading


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
    frozen, trained : list of NamedLinop
        The operator of each part, on weights without history, and on leaves.
    """

    def __init__(
        self,
        tiles: Tiles,
        sources: Sequence[NamedLinop] | None = None,
        copies: Sequence[Sequence[Tensor]] | None = None,
    ) -> None:
        self._sources = [part.linop for part in tiles.parts] if sources is None else sources
        self._read = [read_by(source) for source in self._sources]
        self._copies = self._read if copies is None else copies
        self._called = [part.linop for part in tiles.parts]
        self.weights: list[Tensor] = []
        self.parts = WeightParts()
        self._leaves: list[Tensor] = []  # of each part of a weight
        self._numbers = [
            [self._number_of(*pair) for pair in zip(read, own, strict=True)]
            for read, own in zip(self._read, self._copies, strict=True)
        ]
        self._looks = [look_of(tensor) for tensor in self._tensors(tiles)]
        self.frozen = self._reading(lambda number: self.parts.parts[number].copy.detach())
        self.trained = self._reading(self._leaves.__getitem__)

    def _reading(self, of_part: Callable[[int], Tensor]) -> list[NamedLinop]:
        return [
            reading(source, [copy if n is None else of_part(n) for n, copy in pairs])
            for source, pairs in zip(
                self._sources, map(zip, self._numbers, self._copies), strict=True
            )
        ]

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
        if number == len(self._leaves):
            self._leaves.append(copy.detach().requires_grad_())
        return number

    def _tensors(self, tiles: Tiles) -> list[Tensor]:
        return [t for tensors in tiles.tensors for t in tensors.values() if t is not None]

    def are_current(self, tiles: Tiles) -> bool:
        """Whether the weights are the same tensors, of the same memory, as when these were made."""
        tensors = self._tensors(tiles)
        if not all(weight.is_leaf for weight in self.weights) or len(tensors) != len(self._looks):
            return False
        return all(
            look_of(tensor) == look for tensor, look in zip(tensors, self._looks, strict=True)
        )

    def follow_hooks(self) -> None:
        """Have the hooks that the parts have now be called for their copies."""
        for linops in (self.frozen, self.trained):
            for copy, source, called in zip(linops, self._sources, self._called, strict=True):
                with_hooks_of(copy, source)
                if called is not source:
                    add_hooks_of(copy, called)

    def versions(self) -> list[int]:
        """Return how often each tensor that is read was written to."""
        read = [tensor for tensors in (*self._copies, self.weights) for tensor in tensors]
        return [-1 if tensor.is_inference() else tensor._version for tensor in read]

    def leaves(self, number: int) -> dict[int, Tensor]:
        """Return, by their numbers, the parts of weights that a part reads."""
        numbers = {n for n in self._numbers[number] if n is not None}
        return {n: self._leaves[n] for n in sorted(numbers)}


def look_of(tensor: Tensor) -> tuple[object, ...]:
    """Return which tensor it is, of which memory, and whether autograd follows it."""
    return (
        id(tensor),
        tensor.data_ptr(),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.requires_grad,
    )
